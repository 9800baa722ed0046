"""The progress of experiments on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from harness.experiment import Experiment
from harness.results.record import OK, Point, Record, point_key
from harness.results.store import Campaign
from harness.running.plan import PlannedRun, figure_s, run_s
from harness.text import format_duration

_PLAIN_INTERVAL_S = 10.0
"""Time between two lines where standard error is not a terminal."""

_PLAIN_START_S = 2.0
"""The same for the line of a new run, so that not every short run has one."""

_LONGEST_POINT = 60
"""Characters; a longer point is shortened on the display."""

_MOST_OF_A_RUN = 0.8
"""Share of a run that its planned time counts as done. Of the rest, time alone counts half after
another planned time, and all only when the run ends: the countdown moves while a run lasts."""


class Countdown:
    """The time that is left, from the plan's estimate and the pace so far.

    The pace (time taken over time planned) weighs as much as the share of the plan that is done:
    a few quick runs at the start say little about the long ones."""

    def __init__(self, planned_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._planned_s, self._clock = planned_s, clock
        self._done_s = self._run_s = 0.0
        self._began = self._run_began = clock()

    def started(self, planned_s: float) -> None:
        """Begin a run of this planned time."""
        self._run_s, self._run_began = planned_s, self._clock()

    def finished(self, planned_s: float) -> None:
        """End a run of this planned time."""
        self._done_s += planned_s
        self._run_s = 0.0

    def left_s(self) -> float:
        """Return the seconds that are left; it falls within a run, too."""
        now = self._clock()
        in_run_s = _done_s(now - self._run_began, self._run_s)
        done_s = self._done_s + in_run_s
        if self._planned_s <= 0 or done_s >= self._planned_s:
            return 0.0
        share = done_s / self._planned_s
        pace = (now - self._began) / done_s if done_s > 0 else 1.0
        return (self._planned_s - done_s) * (1 - share + share * pace)


def _done_s(elapsed_s: float, planned_s: float) -> float:
    """Return the part of a run's planned time that counts as done after ``elapsed_s``."""
    usual_s = _MOST_OF_A_RUN * planned_s
    if elapsed_s <= usual_s:
        return elapsed_s
    beyond_s = elapsed_s - usual_s
    return usual_s + (planned_s - usual_s) * beyond_s / (beyond_s + planned_s)


class _Left(ProgressColumn):
    """The time left, drawn anew with every refresh of the terminal."""

    def __init__(self, countdown: Countdown) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._countdown = countdown

    def render(self, task: Task) -> Text:
        return Text(_left(self._countdown))


def _left(countdown: Countdown) -> str:
    return f"{format_duration(countdown.left_s())} left"


class ProgressDisplay:
    """A `RunObserver` with two live lines on a terminal and plain lines elsewhere."""

    def __init__(self, on_experiment: Callable[[Experiment, Campaign], None]) -> None:
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._on_experiment = on_experiment
        self._progress: Progress | None = None
        self._countdown = Countdown(0.0)
        self._runs: Sequence[PlannedRun] = ()
        self._total = self._finished = 0
        self._last_line = -_PLAIN_INTERVAL_S
        self._current = ""

    def planned(self, runs: Sequence[PlannedRun], estimate_s: float) -> None:
        self._countdown = Countdown(estimate_s)
        self._runs = runs
        self._total = sum(not run.done for run in runs)
        # Several experiments may show the same run.
        different = {
            (run.experiment.measurement.id, point_key(run.point, run.repeat)) for run in runs
        }
        done = len(different) - self._total
        about = format_duration(estimate_s)
        kept = f", {done} measured before are kept" if done else ""
        self._console.print(f"{self._total} runs to make, about {about}{kept}")
        if self._total and self._console.is_terminal:
            self._progress = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeElapsedColumn(),
                _Left(self._countdown),
                TextColumn("{task.description}"),
                console=self._console,
                transient=True,
            )
            self._progress.add_task("", total=self._total)
            self._progress.start()

    def run_started(self, run: PlannedRun) -> None:
        self._current = _words(run)
        self._countdown.started(run_s(run))
        self._last_line -= _PLAIN_INTERVAL_S - _PLAIN_START_S
        self.stage("starting", None, None, None)

    def stage(
        self,
        text: str,
        fraction: float | None,
        throughput_per_s: float | None,
        latency_s: float | None,
    ) -> None:
        numbers = {"{:.0%}": fraction, "{:,.0f}/s": throughput_per_s, "latency {:.2f} s": latency_s}
        known = (form.format(value) for form, value in numbers.items() if value is not None)
        line = f"{self._current}: {' · '.join([text, *known])}"
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], description=line)
        elif time.monotonic() - self._last_line >= _PLAIN_INTERVAL_S:
            self._last_line = time.monotonic()
            counts = f"[{self._finished}/{self._total}]"
            self._console.print(f"{counts} {line} · {_left(self._countdown)}", markup=False)

    def run_finished(self, run: PlannedRun, record: Record) -> None:
        planned = record.attempt == 1  # further attempts were not planned
        self._finished += planned
        self._countdown.finished(planned * run_s(run))
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=self._finished)
        if record.status != OK:
            first = (record.reason or "").strip().splitlines()
            self._console.print(
                f"{_words(run)}: {record.status}: {first[0] if first else ''}", markup=False
            )
        elif record.again is not None:
            self._console.print(f"{_words(run)}: in doubt: {record.again}", markup=False)

    def experiment_finished(self, experiment: Experiment, campaign: Campaign) -> None:
        drawing_s = figure_s(experiment, self._runs)
        self._countdown.started(drawing_s)
        self.stage("drawing the figure", None, None, None)
        self._on_experiment(experiment, campaign)
        self._countdown.finished(drawing_s)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text, markup=False)

    def close(self) -> None:
        """Give the terminal back."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _words(run: PlannedRun) -> str:
    return f"{run.experiment.id} {point_words(run.experiment, run.point)}".strip()


def point_words(experiment: Experiment, point: Point) -> str:
    """Return ``"key=value key=value"``, in the point's order.

    Of a long point only the keys are kept that tell it from the others of the experiment's grid."""
    words = {key: f"{key}={value}" for key, value in point.items()}
    if len(" ".join(words.values())) > _LONGEST_POINT:
        every = [other for grid in experiment.grid.values() for other in grid]
        words = {key: words[key] for key in _telling_apart(list(point), every)}
    return " ".join(words.values())


def _telling_apart(keys: Sequence[str], points: Sequence[Point]) -> Sequence[str]:
    def kinds(chosen: Sequence[str]) -> int:
        return len({tuple(repr(point.get(key)) for key in chosen) for point in points})

    chosen: list[str] = []
    for key in keys:
        if kinds([*chosen, key]) > kinds(chosen):
            chosen.append(key)
    return chosen
