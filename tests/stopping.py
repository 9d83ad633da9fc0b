"""A run with a checkpoint, stopped after every few writes of it and begun again until it ends."""

from squeak.samplers import checkpoint


class StoppedError(BaseException):
    """The process is gone: nothing that is in memory is left."""


def run_with_stops(monkeypatch, run, writes):
    """Call ``run`` again and again, each time stopped after so many writes; return its result and the stops."""
    write, stops = checkpoint.storage.write, 0
    while True:
        count = 0

        def stopping(*arguments):
            nonlocal count
            write(*arguments)
            count += 1
            if count == writes:
                raise StoppedError

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.storage, "write", stopping)
            try:
                return run(), stops
            except StoppedError:
                stops += 1
