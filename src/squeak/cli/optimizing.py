"""``squeak optimize``."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squeak.cli.errors import echo
from squeak.cli.options import Data, KernelChoice, KernelName, Seed, kernel_of, positive, refuse_changed
from squeak.cli.outputs import Overwrite, check_outputs
from squeak.cli.reading import Columns, source_from

FIRST = 8
"""Rows drawn at random at first, whose rewards give the units."""

SETTLED = "study"
"""What the state calls the parameters of the command that it has settled; older files have none."""


def optimize(
    data: Data,
    *,
    reward: Annotated[
        str | None,
        typer.Option(help="A column with the reward of each row, to replay a finished study.", show_default=False),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help="The command that is run for each row that was chosen. Its arguments are the number of the "
            "row and its "
            "columns as they stand in DATA, and the last line that it prints is the reward, or nan where the "
            "trial failed."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="How many trials to make.")] = 100,
    minimize: Annotated[bool, typer.Option("--minimize", help="Smaller rewards are better.")] = False,
    reading: Columns,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: Annotated[
        str, typer.Option(help="The width of the kernel at the beginning: a number or 'median'.")
    ] = "median",
    noise: Annotated[
        float,
        typer.Option(
            callback=positive,
            help="The noise of a reward at the beginning, in standard deviations of the first rewards.",
        ),
    ] = 0.1,
    fixed: Annotated[
        bool,
        typer.Option(
            "--fixed",
            help="Never fit width, noise and units to the rewards. These should then have mean 0 and a spread "
            "of about 1.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write every row that was tried, with its reward, to this CSV file.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Keep the state in this .sqk file, and continue from it if it exists.", show_default=False
        ),
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
) -> None:
    """Choose rows of DATA to try, one after the other, so that the best row is found in few trials.

    Each row is a candidate. Its reward comes from a column (--reward) or from a command that is run for it
    (--command). The first eight are drawn at random: the mean and the spread of their rewards are the units.
    A row whose reward is not a finite number has failed. It counts as a step and is not tried again.
    """
    from squeak.bandits import AutoUCB
    from squeak.core.storage import read

    if (reward is None) == (command is None):
        raise typer.BadParameter("give either --reward COLUMN or --command 'PROGRAM ...'")
    check_outputs(data, overwrite=overwrite, states=[state], others=[out])
    source = source_from(reading, data, reward, seed=seed)
    arms, rewards = source.collect()
    sign = -1.0 if minimize else 1.0
    settled: dict[str, Any] = {"reward": reward, "minimize": minimize, "noise": noise, "fixed": fixed}
    settled |= {"kernel": kernel.value, "length_scale": length_scale}
    if state is not None and state.exists():
        known = read(state, AutoUCB.kind)[2].get(SETTLED)
        if isinstance(known, dict):
            changed = {name for name, value in settled.items() if known.get(name) != value}
            refuse_changed(changed, f"{state} goes on with a study as it was")
        bandit = AutoUCB.load(state)
        if bandit.n_arms != len(arms) or not np.array_equal(bandit.arms_, arms):
            raise ValueError(f"{state} belongs to other rows, or to the same read in another way")
        bandit.forget(bandit.pending_) if len(bandit.pending_) else None
    else:
        refit = None if fixed else "doubling"
        bandit = AutoUCB(arms, kernel_of(kernel, length_scale), noise=noise, refit=refit, random_state=seed)
    judge = _Replay(rewards, sign) if command is None else _Command(command, _words(source, len(arms)), sign)
    study = _Study(bandit, judge, state, settled, every_reward=command is not None)
    bandit.verbose = 0  # the bar is ours: it goes on when the bandit begins anew in other units
    try:
        study.run(steps, seed, scaled=not fixed, verbose=not quiet)
    finally:
        bandit = study.bandit
        study.finish(out, sign)
    failed = _failed(bandit)
    if len(failed) == _trials(bandit):
        raise ValueError(
            f"all {len(failed)} trials failed: no row had a finite reward, the first of them {failed[0]}"
        )
    best = bandit.best_
    echo(f"best row {best.index}: reward {sign * best.mean:.6g} ± {best.std:.2g} by the posterior mean")
    seen = bandit.rewards_[bandit.pulls_ == best.index]
    echo(
        f"  asked {len(seen)} times, mean {sign * seen.mean():.6g}; "
        f"{bandit.n_told_} rewards of {len(arms):,} rows in all"
    )
    if failed:
        echo(f"  {len(failed)} rows failed: {', '.join(map(str, failed[:10]))}{', …' * (len(failed) > 10)}")


class _Study:
    """A bandit that is asked and told; where rewards are dear its state is kept after each of them."""

    def __init__(
        self,
        bandit: Any,
        judge: Callable[[int], float],
        state: Path | None,
        settled: dict[str, Any],
        every_reward: bool,
    ) -> None:
        self.bandit, self._judge, self._state, self._every_reward = bandit, judge, state, every_reward
        self._settled = settled

    def keep(self) -> None:
        """Write the state, where a file was named and there is anything to write, with what it has settled."""
        from squeak.core.storage import write

        if self._state is not None and _trials(self.bandit):
            arrays, content = self.bandit.to_parts()
            write(self._state, self.bandit.kind, arrays, {**content, SETTLED: self._settled})

    def finish(self, out: Path | None, sign: float) -> None:
        """Write the pulls and the state; rewards that neither file could take are printed, so that none is lost."""
        from squeak.core.outputs import replacing

        kept = out is not None
        try:
            try:
                if out is not None:
                    with replacing(out) as stream:
                        stream.write(_csv(self.bandit, sign).encode())
            except OSError:
                kept = False
                raise
            finally:
                self.keep()
        except OSError as error:
            if kept:
                raise OSError(error.errno, f"{error.strerror}; every reward is in {out}", error.filename) from None
            echo(f"squeak: every reward so far:\n{_csv(self.bandit, sign)}".replace("\r", ""), err=True)
            raise

    def run(self, steps: int, seed: int, *, scaled: bool, verbose: bool) -> None:
        """Make so many trials, the first of all at random rows where rewards are to be scaled by them."""
        from squeak.bandits.runs import show_best
        from squeak.core.progress import progress

        def told(*pull: Any) -> None:
            if self._every_reward:
                self.keep()
            if not bar.disable:
                show_best(bar, self.bandit)
            bar.update()

        end, few = _trials(self.bandit) + steps, min(FIRST, self.bandit.n_arms)
        with progress(type(self.bandit).__name__, "pulls", steps, verbose) as bar:
            rows = _first_rows(few, self.bandit.n_arms, seed) if scaled else []
            while self.bandit.n_told_ < few and _trials(self.bandit) < min(end, len(rows)):
                row = rows[_trials(self.bandit)]
                reward = self._judge(row)
                self.bandit.tell(row, reward) if np.isfinite(reward) else self.bandit.fail(row)
                done = self.bandit.n_told_ == few or _trials(self.bandit) == len(rows)
                if done and self.bandit.n_told_:  # a run that goes on from the state finds the units settled
                    self.bandit = self.bandit.in_units_of_rewards()
                told()
            left = end - _trials(self.bandit)
            if left > 0 and self.bandit.active_.any():
                self.bandit.run(self._judge, left, callback=told, one_by_one=self._every_reward)


def _failed(bandit: Any) -> list[int]:
    """Return the rows that failed; no other is ever retired here."""
    found: list[int] = np.flatnonzero(~bandit.active_).tolist()
    return found


def _trials(bandit: Any) -> int:
    """Return the number of trials so far, with those that failed."""
    return int(bandit.n_told_) + len(_failed(bandit))


def _first_rows(few: int, n: int, seed: int) -> list[int]:
    """Return the rows in the random order in which they are tried, until ``few`` of them have a reward."""
    rng = np.random.default_rng(seed)
    first = rng.choice(n, few, replace=False)
    return [*first.tolist(), *rng.permutation(np.setdiff1d(np.arange(n), first)).tolist()]


class _Replay:
    """The reward of a row, from its column."""

    def __init__(self, rewards: Any, sign: float) -> None:
        try:
            self._rewards, self._sign = np.asarray(rewards, dtype=np.float64), sign
        except ValueError:
            raise ValueError(f"the column of --reward holds {rewards[0]!r}, which is not a number") from None

    def __call__(self, row: int) -> float:
        return self._sign * float(self._rewards[row])


class _Command:
    """The reward of a row, printed by the user's command."""

    def __init__(self, command: str, words: list[list[str]], sign: float) -> None:
        self._command, self._words, self._sign = shlex.split(command), words, sign

    def __call__(self, row: int) -> float:
        call = [*self._command, str(row), *self._words[row]]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        last = (done.stdout.strip().splitlines() or [""])[-1]
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise ValueError(
                f"the command ended with code {done.returncode} for row {row}; it said: {said}. To go on without "
                "such a row, let it print nan and end with code 0"
            )
        try:
            return self._sign * float(last)
        except ValueError:
            raise ValueError(
                f"the command printed {last!r} for row {row}; its last line must be the reward"
            ) from None


def _words(source: Any, n: int) -> list[list[str]]:
    """Return the columns that rows are compared by as they stand in the data, as text; "" where one is empty."""
    from squeak.data.source import originals

    table = originals(source, np.arange(n)).select([str(name) for name in source.column_names])
    columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _csv(bandit: Any, sign: float) -> str:
    """Return every pull as lines of a CSV file; the rows that failed come last, with the reward nan."""
    pulls = [
        *zip(bandit.pulls_.tolist(), bandit.rewards_.tolist(), strict=True),
        *((row, np.nan) for row in _failed(bandit)),
    ]
    lines = [f"{step},{row},{sign * reward!r}\r\n" for step, (row, reward) in enumerate(pulls)]
    return "".join(["step,row,reward\r\n", *lines])
