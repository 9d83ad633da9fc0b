"""The exact settings to repeat a run: parameters, versions, and lines to paste."""

from __future__ import annotations

from typing import Any

from squeak.report.given import dictionary_of, has_targets, preprocessing_of
from squeak.report.others import preprocessing_panel
from squeak.report.shell import Panel, Tab, number, percent, table, tag
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.record import given_parameters, versions

SAMPLERS_AT_THE_TOP = ("Squeak", "Kors", "Disqueak")


def settings_tab(obj: Any, name: str) -> Tab:
    """Return the tab of settings: what was given, what was used, and how to do it again."""
    tab = Tab("Settings")
    tab.add(Panel("Again, in Python", tag("pre", tag("code", paste(obj, name))), _repeatable(obj), wide=True))
    d = dictionary_of(obj)
    lines = [] if isinstance(obj, Dictionary) or not hasattr(obj, "get_params") else _parameters(obj)
    if d is not None:
        lines += _dictionary_settings(d)
    if lines:
        tab.add(Panel("Parameters", table(["name", "value"], lines, "wrapped"), wide=True))
    used = None if d is None or d.record is None else d.record.libraries
    now = versions()
    shown = [[part, "–" if used is None else used.get(part, "–"), now[part]] for part in now]
    words = "The same seed gives the same bits for the same versions and processor type."
    tab.add(Panel("Versions", table(["", "learned with", "this page"], shown), words))
    encoding = obj if type(obj).__name__ == "Preprocessing" else preprocessing_of(obj)
    if encoding is not None:
        tab.add(preprocessing_panel(encoding))
    return tab


def _parameters(obj: Any) -> list[list[Any]]:
    return [[name, repr(value)[:300]] for name, value in obj.get_params(deep=False).items()]


def _dictionary_settings(d: Dictionary) -> list[list[Any]]:
    lines: list[list[Any]] = [
        ["kernel, every width a number", repr(d.kernel)],
        ["ridge, at the end", repr(d.ridge)],
    ]
    if d.oversampling is not None:
        lines += [["oversampling", repr(d.oversampling)], ["copies", repr(d.copies)]]
    if d.eps:
        lines.append(["eps", repr(d.eps)])
    lines.append(["sources", ", ".join(f"{source} ({size:,})" for source, size in d.sources[:6])])
    if d.record is not None:
        lines.append(["learned by", d.record.call])
    return lines


def _repeatable(obj: Any) -> str | None:
    if isinstance(obj, Dictionary):
        params = None if obj.record is None else obj.record.parameters
    else:
        params = given_parameters(obj) if hasattr(obj, "get_params") else None
    if params is None:
        return None
    if params.get("random_state", "None") == "None":
        return "No random_state was given, so another run draws other rows; give one to repeat a run bit for bit."
    return "The random_state is given, so the same rows in the same order give the same bits."


def paste(obj: Any, name: str) -> str:
    """Return lines of Python that learn the object again."""
    lines = ["import squeak", "from squeak.kernels import *", ""]
    encoding = preprocessing_of(obj)
    if encoding is not None:
        target = "'TARGET', " if has_targets(obj) else ""
        lines += [
            f"like = squeak.load({name!r})",
            f"rows = squeak.rows('DATA', {target}preprocessing=like{_path(obj)})",
        ]
        learn = "rows"
    else:
        learn = "X, y" if has_targets(obj) else "X"
        lines.append(f"{learn} = ...  # the rows, in the same order")
    if isinstance(obj, Dictionary):
        merged = obj.record is not None and obj.record.sampler == "merge"
        lines.append(_merge(obj) if merged else f"d = {_sampler(obj)}.fit({learn}).dictionary_")
    elif hasattr(obj, "get_params"):
        where = f"squeak.{type(obj).__module__.split('.')[1]}"
        given = ", ".join(f"{key}={value}" for key, value in given_parameters(obj).items())
        lines.append(f"found = {where}.{type(obj).__name__}({given}).fit({learn})")
        if dictionary_of(obj) is not None:
            lines.append(f"found.dictionary_ == squeak.load({name!r}).dictionary_  # True for the same bits")
    else:
        lines = ["import squeak", "", f"found = squeak.load({name!r})  # it goes on from here"]
    return "\n".join(lines)


def _path(obj: Any) -> str:
    if isinstance(obj, Dictionary):
        return ".preprocessing"
    return ".preprocessing_" if hasattr(obj, "preprocessing_") else ".dictionary_.preprocessing"


def _merge(d: Dictionary) -> str:
    assert d.record is not None
    given = "".join(f", {key}={value}" for key, value in d.record.parameters.items())
    return f"d = squeak.merge(*parts{given})  # parts: the {len(d.sources):,} dictionaries, in their order"


def _sampler(d: Dictionary) -> str:
    if d.record is None:
        ways = f"oversampling={d.oversampling!r}, copies={d.copies!r}, " if d.oversampling is not None else ""
        return f"squeak.Squeak({d.kernel!r}, {d.ridge!r}, {ways}random_state=0)"
    room = "squeak" if d.record.sampler in SAMPLERS_AT_THE_TOP else "squeak.samplers"
    return f"{room}.{d.record.call}"


TRIED = (
    "Every line was fitted without the held-out rows. Its error is the root of the mean squared error there, as a "
    "part of the targets' standard deviation. The weight is its part in the model, whose rest is the mean. "
    "Each fold, where there are several, held other rows out, and the model is their mean. The mixture is the "
    "model itself: its error is a little too small, for its weights were chosen on these rows."
)


def choice_tab(model: Any) -> Tab | None:
    """Return the table of what an automatic learner tried, and its words on what limits the result."""
    stages = getattr(model, "search_", None)
    if stages is None:
        return None
    tab = Tab("Choice")
    lines = [
        [
            line["stage"],
            line["model"],
            f"{line['rows']:,}",
            f"{line['atoms']:,}",
            number(line["error"], 4),
            percent(line["weight"]) if line["stage"] != "search" else "",
        ]
        for line in stages
    ]
    if lines:
        tab.add(
            Panel(
                "What was tried",
                table(["stage", "model", "rows", "atoms", "error", "weight"], lines),
                TRIED,
                wide=True,
            )
        )
    for words in model.limits_:
        tab.add(Panel("What limits the result", tag("p", f"{words[0].upper()}{words[1:]}.")))
    return tab


def parts_of(model: Any) -> list[tuple[str, str]]:
    """Return the facts at the head of the page: how many parts the model has, and their atoms."""
    experts = getattr(model, "experts_", [])
    parts = [
        *getattr(model, "expansions_", []),
        *getattr(model, "everywhere_", []),
        *(p for e in experts for p in e),
    ]
    facts = [("Kernel functions", f"{sum(map(len, parts)):,}")]
    if getattr(model, "trees_", None) is not None:
        facts.append(("Boosted trees", f"{len(model.trees_.roots):,}"))
    return [("Local experts", f"{len(experts):,}"), *facts] if len(experts) > 1 else facts
