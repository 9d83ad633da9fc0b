"""Pages of what is neither a dictionary nor a learner on one: features, graphs, bandits, samples, columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.data import Preprocessing
from squeak.report.charts import curves, histogram, named_bars
from squeak.report.plot import some
from squeak.report.shell import Panel, Tab, number, table

MOST_LISTED = 30


def features_tab(model: Any) -> Tab:
    """Return the tab of random Fourier features: how fast they turn, and in which columns."""
    frequencies = np.asarray(model.features_.frequencies)
    lengths = np.sqrt((frequencies**2).sum(axis=0))
    chart = histogram(lengths, "length of ω", "lengths of the frequencies", of="features")
    words = "A feature cos(ω·x + b) turns once in 2π/‖ω‖; a kernel of small width has long ω."
    tab = Tab("Features", [Panel("Frequencies", chart, words)])
    names = [str(name) for name in getattr(model, "feature_names_in_", range(len(frequencies)))]
    if model.preprocessing_ is not None:
        names = list(model.preprocessing_.feature_names)
    spread = np.sqrt((frequencies**2).mean(axis=1))
    words = "Root mean square frequency in each column, as the kernel scales it: 0 means that it is not looked at."
    tab.add(Panel("Columns", named_bars(names, spread, "frequency in each column"), words))
    return tab


def preprocessing_panel(p: Preprocessing) -> Panel:
    """Return the table of columns: what each became, how it is scaled, and what fills its holes."""
    lines, at = [], 0
    for column in p.columns[:200]:
        values = getattr(column, "values", ())
        scaled, filled = "" if values else p.formula(at), ""
        if p.fill is not None and not np.isnan(p.fill[at]):
            filled = "(other)" if values else number(p.fill[at], 6)
        known = ", ".join(map(str, values[:8])) + (", …" if len(values) > 8 else "")
        lines.append([column.name, column.code, len(column.features), scaled, filled, known])
        at += len(column.features)
    words = f"{len(p.columns):,} columns become {p.n_features:,} numbers, which are what the kernel sees."
    return Panel(
        "Columns", table(["column", "kind", "numbers", "scaled", "missing", "values"], lines), words, wide=True
    )


def edges_tab(sample: Any) -> Tab:
    """Return the tab of a sparsified graph: weights before and after, chances, degrees."""
    graph = sample.graph
    tab = Tab("Graph")
    if not len(sample):
        tab.add(Panel("Edges", table([], [["edges kept", 0]])))
        return tab
    label = "new weights of the edges"
    chart = histogram(sample.weights, "weight", label, log=True, of="edges", other=sample.original)
    words = "Bars: the weights that edges have now. Line: those they came with. Rare edges were kept as they are."
    tab.add(Panel("Weights", chart, words))
    chances = sample.probabilities
    chart = histogram(chances, "chance of being kept", "probabilities of the edges", log=True, of="edges")
    certain = float(np.mean(chances >= 1.0))
    words = f"{100 * certain:.3g}% of the edges kept were certain: nothing else joins their ends as well."
    tab.add(Panel("Chances", chart, words))
    degrees = np.asarray(graph.degrees())
    known = degrees[degrees > 0]
    words = f"{sample.n_nodes:,} nodes, {int(np.sum(degrees == 0)):,} of them without an edge."
    tab.add(Panel("Degrees", histogram(known, "sum of a node's weights", "degrees", log=True, of="nodes"), words))
    return tab


def bandit_tab(bandit: Any) -> Tab:
    """Return the tab of a bandit: rewards in order, what is known of the arms, how often each was pulled."""
    tab = Tab("Bandit")
    pulls, rewards = np.asarray(bandit.pulls_), np.asarray(bandit.rewards_, dtype=np.float64)
    if len(rewards) > 1:
        steps = np.arange(1, len(rewards) + 1)
        means = np.cumsum(rewards) / steps
        lines = [("best so far", steps, np.maximum.accumulate(rewards)), ("mean so far", steps, means)]
        words = f"{len(rewards):,} rewards of {len(np.unique(pulls)):,} different arms."
        tab.add(Panel("Rewards", curves(lines, "pulls", "reward", "rewards along the way"), words))
    mean, std = bandit.posterior()
    order = np.argsort(-mean, kind="stable")
    which = order[some(len(order), 400)]
    width = bandit.beta_ * std[which]
    places = np.linspace(1, len(order), len(which))
    bounds: list[tuple[str, Any, Any]] = [
        ("mean", places, mean[which]),
        ("upper bound", places, mean[which] + width),
        ("lower bound", places, mean[which] - width),
    ]
    words = "What is believed of every arm: the mean, and the bounds within which its reward lies."
    tab.add(Panel("Arms, best first", curves(bounds, "arm's place", "reward", "posterior of the arms"), words))
    counts = np.asarray(bandit.counts_)
    top = order[:MOST_LISTED]
    listed = [[int(arm), int(counts[arm]), float(mean[arm]), float(std[arm])] for arm in top]
    tab.add(Panel("Best arms", table(["arm", "pulls", "mean", "std"], listed)))
    return tab


def bandit_facts(bandit: Any) -> list[tuple[str, str]]:
    """Return the numbers at the head of a bandit's page."""
    facts = [("Arms", f"{bandit.n_arms:,}"), ("Rewards told", f"{len(bandit.rewards_):,}")]
    if np.any((bandit.counts_ > 0) & bandit.active_):
        best = bandit.best_
        facts += [("Best arm", f"{best.index:,}"), ("Its mean", f"{number(best.mean)} ± {number(best.std, 2)}")]
    return [*facts, ("Noise", number(bandit.noise_))]


def box_tab(box: Any) -> Tab:
    """Return the tab of a search in a box: values in order, and the best points."""
    tab = Tab("Search")
    points, values = box.told_
    if len(values) > 1:
        steps = np.arange(1, len(values) + 1)
        lines = [("value", steps, values), ("best so far", steps, np.maximum.accumulate(values))]
        tab.add(Panel("Values", curves(lines, "points told", "value", "values along the way")))
    order = np.argsort(-values, kind="stable")[:MOST_LISTED]
    listed = [[int(i) + 1, float(values[i]), *_shown(points[i])] for i in order]
    sides = [f"side {i + 1}" for i in range(len(points[0]))] if points else []
    tab.add(Panel("Best points", table(["told as", "value", *sides], listed), wide=True))
    return tab


def _shown(point: Any) -> list[str]:
    return [number(v, 6) if isinstance(v, int | float | np.number) else str(v) for v in point]


def dpp_tab(dpp: Any) -> Tab:
    """Return the tab of a determinantal point process: how large samples are, and how likely directions."""
    values = np.asarray(dpp.dictionary_.eigenvalues()) if dpp.dictionary_.calibrated else np.zeros(0)
    chances = dpp.scale_ * values / (1.0 + dpp.scale_ * values)
    tab = Tab("Samples")
    seen = chances[chances > 1e-4]
    if len(seen) > 1:
        line = ("chance", np.arange(1, len(seen) + 1), seen)
        chart = curves([line], "direction", "chance", "chance of each direction in a sample")
        mean, spread = float(chances.sum()), float(np.sqrt((chances * (1 - chances)).sum()))
        words = (
            f"Each direction of the kernel is in a sample with this chance, estimated from the dictionary: about "
            f"{number(mean, 3)} ± {number(spread, 2)} rows a sample."
        )
        tab.add(Panel("Directions", chart, words))
    rate = dpp.acceptance_rate_
    lines: list[list[Any]] = [
        ["expected size", float(dpp.expected_size_)],
        ["scale of the kernel", float(dpp.scale_)],
        ["proposals accepted", "none made yet" if np.isnan(rate) else f"{100 * rate:.3g}%"],
    ]
    words = "Samples are exact whatever the dictionary; it decides their speed."
    tab.add(Panel("Samples", table([], lines), words))
    return tab


def online_tab(model: Any) -> Tab:
    """Return the tab of an online learner that was saved along its stream."""
    facts = [["rows learned", model.n_seen_], ["atoms", model.n_atoms_], ["loss", str(model.loss)]]
    facts += [[name, value] for name, value in model.facts_.items() if name != "atoms"]
    return Tab("Stream", [Panel("So far", table([], facts))])
