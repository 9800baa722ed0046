"""What an experiment is: data and four functions, one module a figure.

An `Experiment` is static: a grid of points, and how a point is run, tabulated, drawn and
judged. Running it is the runner's business, and what a run leaves behind is a record
(`harness.results`). A module under ``experiments/`` defines one, by convention so::

    EXPERIMENT = Experiment(id="ppa/random-topologies", ..., run=run, table=table,
                            draw=draw, claims=claims)

* ``run(point, context) -> Outcome`` measures one point once.
* ``table(results) -> DataFrame`` turns the valid runs into what the figure shows; tested. Where
  that is several tables (runs, and what happened over time in each), it returns them by name.
* ``draw(table, figure)`` puts that on a matplotlib figure; thin.
* ``claims(table) -> list[Claim]`` checks the paper's sentences against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

from harness.claims import Claim
from harness.results.record import Outcome, Point, Profile
from harness.seeds import derive_seed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from harness.cluster.base import Action, Cluster, ClusterSpec
    from harness.results.tables import Results

Tables = Union["pd.DataFrame", Mapping[str, "pd.DataFrame"]]
"""What an experiment shows: one table, or several by name."""

Kept = TypeVar("Kept")
"""What runs on a cluster and is kept warm with it."""


class Origin(StrEnum):
    """Where an experiment's numbers come from; printed in its figure."""

    COMPUTED = "computed"
    """From a formula or an algorithm: no time passes, nothing fails."""
    SIMULATED = "simulated"
    """In virtual time, or by drawing random failures: nothing real was killed."""
    MEASURED = "measured"
    """On real servers, with real kills."""


class Context(Protocol):
    """What the runner gives to the run of a point."""

    @property
    def profile(self) -> Profile:
        """How much is measured."""

    @property
    def root_seed(self) -> int:
        """What the user gave as ``--seed``."""

    @property
    def repeat(self) -> int:
        """Which repetition this is, from 0."""

    @property
    def directory(self) -> Path:
        """For files of this run alone; kept beside its record."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What the user asked for on the command line and only some experiments know
        (``failures``: a schedule file, ``text``: files to count words in, ``workload``: a file).
        """

    @property
    def calibration(self) -> Mapping[str, Any] | None:
        """The values of the run of `Experiment.scaled_by` on this machine; None without one, in the
        smoke profile, and where that run failed."""

    def seed(self, *names: str | int) -> int:
        """A seed for ``names`` that is the same for every point of this repetition, so that
        schemes are compared on the same input; add the point's values to make it differ."""

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """A running cluster of that shape with every node alive; kept warm between runs."""

    def keep(
        self,
        key: str,
        start: Callable[[], AbstractContextManager[Kept]],
        *,
        check: Callable[[Kept], None],
    ) -> Kept:
        """What runs on the cluster and is kept warm between runs with it: what ``start`` opens,
        or what an earlier run opened under the same ``key``. ``check`` says with an
        `EnvironmentFailure` that the kept one is no longer of use. Only one is kept at a time; it
        is closed before the cluster ends."""

    def measures(self, engine: str) -> None:
        """Told by whatever measures a live engine, by the engine's name; for the record."""

    def progress(
        self,
        stage: str,
        *,
        fraction: float | None = None,
        throughput_per_s: float | None = None,
        latency_s: float | None = None,
    ) -> None:
        """Tell whoever watches what this run does now."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """One figure (or table) of a paper, or one of our own."""

    id: str
    """``paper/name``, the path of its module under ``experiments/`` with dashes."""
    paper: str
    """Whose figure it is, as a reader would cite it; "Faultline" for our own."""
    figure: str
    """Which figure or table of that paper."""
    title: str
    statement: str
    """What the paper says about this figure, in a sentence or two."""
    origin: Origin
    grid: Mapping[Profile, Sequence[Point]]
    """The points per profile, cheapest or most telling first."""
    repeats: Mapping[Profile, int]
    """How often each point is run per profile."""
    seconds_per_run: Mapping[Profile, float]
    """What one run of one point takes on two cores, roughly: for the plan and its estimate."""
    run: Callable[[Point, Context], Outcome]
    table: Callable[[Results], Tables]
    """From the valid runs to what the figure shows: one table, or several by name."""
    draw: Callable[[Any, Figure], None]
    """Takes what ``table`` returned, as ``claims`` does."""
    claims: Callable[[Any], Sequence[Claim]]
    notes: Sequence[str] = ()
    """What a reader must know: chosen values where the paper's are lost, scaled-down sizes."""
    figure_size_in: tuple[float, float] = (8.0, 4.5)
    smoke_covered_by: str | None = None
    """The experiment whose smoke run shows all that this one's would. Reproducing everything in
    the smoke profile, which must end in two minutes, then leaves this one out; asked for by name
    it runs."""
    runs_of: str | None = None
    """The experiment whose runs this one shows: both have the same grid, and what one pass tells
    for two figures is measured once, under that name."""
    alone: bool = False
    """Whether it measures its own processor time, which other runs beside it would lengthen."""
    patient: bool = False
    """Whether what it measures is no time and no cost, so that what is computed may be made beside
    it, at a lower priority."""
    chooses: Sequence[str] = ()
    """Modules that it gets by name from a list (`harness.results.reach.CHOSEN_FROM`), such as
    ``"harness.engines.structured.engine"``: a run depends on them as on what it imports."""
    accepts: frozenset[str] = frozenset()
    """Names of the user's options that this experiment understands."""
    actions: frozenset[Action] = frozenset()
    """What its failures do to nodes, where not every backend of a cluster can. On one that cannot,
    every run of it is a recorded skip, and nothing is started."""
    early: bool = False
    """Whether it is made right after what is computed in seconds, before what takes minutes, so
    that someone who reproduces everything soon has something measured to look at."""
    keeps: Callable[[Point], str] | None = None
    """What the run of a point opens and keeps warm: runs of one command for which this is the same
    come one after the other, because opening it takes half a minute."""
    scaled_by: Experiment | None = None
    """What finds out by how much this machine's grids must be longer. It is made before, in every
    profile but smoke, and `Context.calibration` has its values."""
    once: bool = False
    """Whether it tells something of the machine: each point is run once, however many repetitions
    the user asks for."""
    check: Callable[[Profile, Mapping[str, Any]], None] | None = None
    """Raises `harness.errors.UsageError` for options that cannot be used, before anything is
    started; called with the profile and the options it accepts."""

    @property
    def ours(self) -> bool:
        """Whether its statement is a sentence of our own and of no paper."""
        return self.paper.startswith("Faultline")

    @property
    def source(self) -> str:
        """Under which experiment's name its runs are recorded: its own, unless it shows
        another one's."""
        return self.runs_of or self.id

    @property
    def module(self) -> str:
        """Where that one is defined."""
        return f"experiments.{self.source.replace('/', '.').replace('-', '_')}"

    @property
    def group(self) -> str:
        """The part before the slash: ppa, intervals, edge, dpc or stock."""
        return self.id.split("/", 1)[0]


def experiment_seed(root_seed: int, experiment_id: str, repeat: int, *names: str | int) -> int:
    """The seed behind `Context.seed`."""
    return derive_seed(root_seed, experiment_id, repeat, *names)
