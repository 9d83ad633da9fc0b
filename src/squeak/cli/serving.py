"""A model behind HTTP: predictions as JSON, a health check, and a page on which a row can be typed in."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import tempfile
from collections.abc import Sized
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio.to_thread
import uvicorn
from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from squeak.cli.answering import Answering, RefusedError, parsed
from squeak.core.text import for_terminal
from squeak.report import write
from squeak.report.shell import asset

LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONNECTIONS, SECONDS_FOR_A_BODY, SECONDS_TO_END = 64, 30.0, 10
"""Connections at a time, each of which may hold a body; seconds for a body to come, and for answers at the end."""

SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}


class Application:
    """The routes of one model. Predictions are made one after the other, in a thread beside that of the network.

    ``answering``: the model. ``most_bytes``: of the body of a request at most.
    """

    def __init__(self, answering: Answering, most_bytes: int) -> None:
        self.answering, self.most_bytes = answering, most_bytes
        self.connections: Sized = ()  # those of the server, once there is one
        self._one = CapacityLimiter(1)
        self._routes = {"/": self._page, "/health": self._health, "/model": self._model, "/report": self._report}

    def bound_to(self, host: str) -> Starlette:
        """Return the application; one that is bound to this machine answers to its names only."""
        names = LOOPBACK[:2] if host in LOOPBACK[:2] else None
        return Starlette(
            routes=[
                *(Route(path, answer) for path, answer in self._routes.items()),
                Route("/predict", self._predict, methods=["POST"]),
            ],
            middleware=[Middleware(_Gate, names=names, application=self)],
            exception_handlers={RefusedError: _refused, HTTPException: _not_there, Exception: _failed},
        )

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok", "model": type(self.answering.model).__name__})

    async def _model(self, request: Request) -> Response:
        return _json({**self.answering.described(), "most_bytes": self.most_bytes})

    async def _predict(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedError(415, "the body must be JSON, with the header Content-Type: application/json")
        body = await self._body(request)
        return _json(await self._alone(lambda: self.answering.answer(parsed(body))))

    async def _body(self, request: Request) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(SECONDS_FOR_A_BODY):
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > self.most_bytes:
                        raise RefusedError(413, f"the body may have {self.most_bytes:,} bytes, and it has more")
        except TimeoutError:
            raise RefusedError(408, f"the body did not come within {SECONDS_FOR_A_BODY:g} seconds") from None
        return b"".join(parts)

    async def _alone(self, work: Any) -> Any:
        return await anyio.to_thread.run_sync(work, limiter=self._one)

    async def _report(self, request: Request) -> Response:
        return HTMLResponse(await self._alone(lambda: self._written), headers=SAFE)

    @cached_property
    def _written(self) -> bytes:
        """The report of the model, made when it is first asked for."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            return write(self.answering.model, path, name=self.answering.name).read_bytes()

    async def _page(self, request: Request) -> Response:
        """Return a page that is the same for every model: it asks for the description, and never runs a text."""
        page, script = (files("squeak.cli").joinpath(f"serve.{end}").read_text("utf-8") for end in ("html", "js"))
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; connect-src 'self'"
        content = page.replace("/*style*/", asset("page.css")).replace("/*script*/", script)
        return HTMLResponse(content, headers={**SAFE, "Content-Security-Policy": policy})


class _Gate:
    """Refuses what comes under a foreign name, or while too many connections are open.

    ``names``: of this machine, or None where any will do.
    """

    def __init__(self, app: Any, names: tuple[str, ...] | None, application: Application) -> None:
        self._app, self._names, self._application = app, names, application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        host = Headers(scope=scope).get("host", "").partition(":")[0]
        app = self._app
        if len(self._application.connections) >= CONNECTIONS:
            app = _json({"error": f"the server has {CONNECTIONS:,} connections at most; try again soon"}, 503)
            app.headers["Connection"] = "close"
        elif self._names is not None and host.lower() not in self._names:
            app = _json(
                {"error": f"the header Host names {for_terminal(host) or 'nothing'}, not this machine"}, 400
            )
        await app(scope, receive, send)


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, headers=SAFE)


async def _refused(request: Request, error: Any) -> Response:
    return _json({"error": for_terminal(error)}, error.status)


async def _not_there(request: Request, error: Any) -> Response:
    path = for_terminal(request.url.path)
    words = {404: f"there is no {path}", 405: f"{request.method} is not for {path}"}
    return _json({"error": words.get(error.status_code, error.detail)}, error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    return _json({"error": "the server could not answer; what went wrong stands in its log"}, 500)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or say that the port cannot be had."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OSError(f"port {port} of {host} cannot be had: {error.strerror or error}") from None


def server_of(answering: Answering, host: str, most_bytes: int) -> uvicorn.Server:
    """Return the server of a model; when it is told to end, requests under way are answered first."""
    application = Application(answering, most_bytes)
    config = uvicorn.Config(
        application.bound_to(host),
        http="h11",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    server = uvicorn.Server(config)
    application.connections = server.server_state.connections
    return server
