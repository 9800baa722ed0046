"""The measuring half of a figure: points, and a function that measures one of them once.

A `Measurement` is static. Running it is the work of `harness.running`, and a run leaves a record
(`harness.results`) that depends on the code of the measuring half alone. The other half, with
tables, drawing and claims, is an `harness.experiment.Experiment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.claims.samples import FEWEST
from harness.results.record import Outcome, Point, Profile
from harness.results.setting import Setting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from harness.cluster.base import Action, Cluster, ClusterSpec

Kept = TypeVar("Kept")
"""An object on a cluster that is kept warm with it."""
Lasts = Callable[
    [Profile, Sequence[Point], Mapping[str, Any], float], tuple[float, str] | None
]  # fmt: skip
"""The mean duration of some points and its reason, by profile, options and usual duration."""


class Origin(StrEnum):
    """The source of an experiment's numbers, printed in its figure."""

    COMPUTED = "computed"
    """A formula or an algorithm: no time passes, nothing fails."""
    SIMULATED = "simulated"
    """Virtual time, or randomly drawn failures: nothing real was killed."""
    MEASURED = "measured"
    """Real servers, with real kills."""


class Context(Protocol):
    """The surroundings of one run, provided by the runner."""

    @property
    def profile(self) -> Profile:
        """The amount that is measured."""

    @property
    def root_seed(self) -> int:
        """The user's ``--seed``."""

    @property
    def repeat(self) -> int:
        """The number of this repetition, from 0."""

    @property
    def directory(self) -> Path:
        """A directory for files of this run alone, kept with its record."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the command line that only some experiments understand.

        ``failures``: a schedule file; ``text``: files to count words in; ``workload``: a file."""

    @property
    def calibration(self) -> Mapping[str, Any] | None:
        """The values of the run of `Experiment.scaled_by` on this machine.

        None without one, in the smoke profile, and after a failure of that run."""

    def seed(self, *names: str | int) -> int:
        """Return a seed for ``names``, the same for every point of this repetition.

        Schemes are compared on the same input by this; add the point's values for a seed of its
        own."""

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """Return a running cluster of that shape, every node alive; it stays warm between runs."""

    def keep(
        self,
        key: str,
        start: Callable[[], AbstractContextManager[Kept]],
        *,
        check: Callable[[Kept], None],
    ) -> Kept:
        """Return the object that ``start`` opens, or the one that is still open under ``key``.

        It is kept warm between runs, one at a time, and closed before the cluster ends. ``check``
        raises `EnvironmentFailure` if the kept one is of no more use."""

    def measures(self, setting: Setting) -> None:
        """Record the setting of a pass: the engine, its scheme, its workload."""

    def surroundings(
        self, name: str, conditions: Mapping[str, float | None], *, repeatable: bool
    ) -> bool:
        """Record other load of the machine during the pass of that name.

        Return True instead if the pass must be made again: it is ``repeatable``, other load
        disturbed it, and a calmer minute has come since."""

    def progress(
        self,
        stage: str,
        *,
        fraction: float | None = None,
        throughput_per_s: float | None = None,
        latency_s: float | None = None,
    ) -> None:
        """Report the present stage of this run to the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """The place of a measurement's runs among those of others."""

    alone: bool = False
    """True if it measures its own processor time, which other computed runs would lengthen."""
    early: bool = False
    """True if it comes right after the computed runs of seconds, so that a first measured figure
    is there soon."""
    once: bool = False
    """True if it is about the machine: one run a point, whatever ``--repeats`` asks for."""
    in_turns: bool = False
    """True if the points of each repetition are measured in an order that the seed draws: what a
    machine does in one hour then falls on all of them."""
    keeps: Callable[[Point], str] | str | None = None
    """The name of the object that a run keeps warm, or that of each point. Runs of one command with
    the same name follow each other, because opening it takes half a minute."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """One grid of points, and the function that measures them."""

    id: str
    """``group/name``, the path of its module under ``experiments/`` with dashes."""
    defined_in: str = ""
    """``module:NAME`` below ``experiments`` where that is not so: a live counterpart, which stands
    in the module of a paper's figure."""
    origin: Origin
    grid: Mapping[Profile, Sequence[Point]]
    """The points of each profile, the cheapest or most telling first."""
    repeats: Mapping[Profile, int]
    """Runs of each point, by profile."""
    seconds_per_run: Mapping[Profile, float]
    """Rough duration of one run on two cores, for the plan and its estimate."""
    run: Callable[[Point, Context], Outcome]
    """Measures one point once. Records depend on all code that this function reaches."""
    scheduling: Scheduling = Scheduling()
    chooses: Sequence[str] = ()
    """Modules that ``run`` gets by name from a list (`harness.results.reach.CHOSEN_FROM`), such as
    ``"harness.engines.structured.engine"``: records depend on them as on an import."""
    accepts: frozenset[str] = frozenset()
    """Names of the user's options that it understands."""
    actions: frozenset[Action] = frozenset()
    """Actions of its failures that some backends lack. There, every run is a recorded skip."""
    fetches: str | None = None
    """What its runs fetch when they are first made. Only its own name asks for that, not its
    group's; ``reproduce`` leaves it out without ``--peers``."""
    join: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]] | None = None
    """What others that it scales get (`Context.calibration`) from the values of all of its valid
    runs; by default those of the first."""
    check: Callable[[Profile, Mapping[str, Any]], None] | None = None
    """Raises `harness.errors.UsageError` for unusable options, before anything starts. It gets the
    profile and the options that are accepted."""
    lasts: Lasts | None = None
    """Mean duration of a run where the accepted options decide it, with the reason; None
    elsewhere."""

    @property
    def root(self) -> str:
        """Its own definition, from which `harness.results.reach` follows the code."""
        own = f"{self.id.replace('/', '.').replace('-', '_')}:MEASUREMENT"
        return f"experiments.{self.defined_in or own}"

    @property
    def measured(self) -> bool:
        """True if its runs need real servers."""
        return self.origin is Origin.MEASURED


def measured(
    id: str,  # noqa: A002
    grid: Mapping[Profile, Sequence[Point]] | Sequence[Point],
    seconds: Sequence[float],
    *,
    run: Callable[[Point, Context], Outcome],
    repeats: int | Mapping[Profile, int] = FEWEST,
    keeps: Callable[[Point], str] | str | None = None,
    chooses: Sequence[str] = ("harness.engines.tasks.engine",),
    **more: Any,
) -> Measurement:
    """Return a measurement on real servers, by default on the task engine.

    ``seconds`` of a run by profile; ``repeats`` in the paper profile, one in the others. Where
    ``run`` is in another module than the id says, it is a `LIVE_MEASUREMENT`."""
    place = run.__module__.removeprefix("experiments.")
    own = place == id.replace("/", ".").replace("-", "_")
    brief = {Profile.SMOKE: 1, Profile.QUICK: 1}
    return Measurement(
        id=id,
        defined_in="" if own else f"{place}:LIVE_MEASUREMENT",
        origin=Origin.MEASURED,
        grid=_in_each(grid),
        repeats={**brief, Profile.PAPER: repeats} if isinstance(repeats, int) else repeats,
        seconds_per_run=dict(zip(Profile, seconds, strict=True)),
        run=run,
        chooses=chooses,
        **{"scheduling": Scheduling(keeps=keeps), **more},
    )


def computed(
    id: str,  # noqa: A002
    grid: Mapping[Profile, Sequence[Point]] | Sequence[Point],
    seconds: float | Sequence[float],
    *,
    run: Callable[[Point, Context], Outcome],
    repeats: int | Sequence[int] = 1,
    origin: Origin = Origin.COMPUTED,
    alone: bool = False,
) -> Measurement:
    """Return a measurement without servers.

    ``seconds`` of a run and ``repeats`` are numbers by profile, or one for all."""
    each_s = [seconds] * len(Profile) if isinstance(seconds, float | int) else seconds
    times = [repeats] * len(Profile) if isinstance(repeats, int) else repeats
    return Measurement(
        id=id,
        origin=origin,
        grid=_in_each(grid),
        repeats=dict(zip(Profile, times, strict=True)),
        seconds_per_run=dict(zip(Profile, each_s, strict=True)),
        run=run,
        scheduling=Scheduling(alone=alone),
    )


simulated = partial(computed, origin=Origin.SIMULATED)


def _in_each(
    grid: Mapping[Profile, Sequence[Point]] | Sequence[Point],
) -> Mapping[Profile, Sequence[Point]]:
    return grid if isinstance(grid, Mapping) else dict.fromkeys(Profile, grid)
