"""The runner: plans runs, makes them, and keeps one record each.

A run with a valid record of the same code, seed, options and machine is not made again, so an
interrupted command continues when it is given once more."""

from __future__ import annotations

import inspect
import itertools
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cluster.backends import BACKENDS, DEFAULT, Backend
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.impossible import Impossible
from harness.environment.servers import jar_versions, server_versions
from harness.errors import EnvironmentFailure, FaultlineError, UsageError
from harness.experiment import Experiment
from harness.judging.foreign import under_conditions
from harness.judging.headroom import CALMER_S, WAIT_S, wait_for_calm
from harness.measurement import Origin
from harness.results.library import SHIPPED
from harness.results.provenance import (
    describe_commit,
    describe_machine,
    describe_versions,
    machine_name,
)
from harness.results.record import (
    FAILED,
    INVALID,
    Attempt,
    Outcome,
    Point,
    Profile,
    Question,
    Record,
    point_key,
)
from harness.results.setting import NOT_SET, Setting
from harness.results.store import Campaign, RecordStore
from harness.running.code import code_of
from harness.running.computed import ProcessPool, RunResult, takes
from harness.running.discovery import estimate_s
from harness.running.durations import Durations, Seconds
from harness.running.measured import MeasuredContext
from harness.running.peaks import PeakMemory, size_of
from harness.running.plan import (
    Execution,
    PendingRun,
    PlannedRun,
    RunSettings,
    fingerprints,
    grouped,
    once,
    options_for,
    seconds_left,
    stage_of,
)
from harness.running.warm_cluster import ClusterPool, keep_logs
from harness.seeds import generator

if TYPE_CHECKING:
    from harness.running.plan import RunObserver

LOGS = "logs"
"""Folder with the logs of a failed run, next to its record."""

UNPINNED = ("java", "java_vendor", "redis")
"""Servers that are the machine's own where it has some. Runs with others are not pooled."""

ATTEMPTS = 3
"""Largest number of attempts at a run that stays invalid or in doubt."""


class Runner:
    """Plans and makes runs, and keeps their records."""

    def __init__(
        self,
        store: RecordStore,
        make_cluster: Callable[[ClusterSpec], Cluster],
        observer: RunObserver,
        *,
        backend: Backend = BACKENDS[DEFAULT],
        hold: Callable[[Path], None] | None = None,
        others: Callable[[], ProcessPool] = ProcessPool,
        calm: Callable[..., bool] = wait_for_calm,
    ) -> None:
        """Create a runner for one store.

        ``backend``: the kind of cluster that ``make_cluster`` makes. ``hold``: called with the
        cluster's run directory after a failed run, before the cluster stops. ``others``: makes
        computed runs. ``calm``: waits for a calmer minute, so many seconds at most."""
        self.store = store
        self._calm = calm
        self._pool = ClusterPool(make_cluster)
        self.observer = observer
        self._backend = backend
        self._hold = hold
        self._others = others
        self._codes: dict[str, str] = {}
        self._environment_failed = False
        self._busy = False
        """True once other load has disturbed all attempts at a run."""
        self._machine = machine_name()

    def plan(
        self, experiments: Sequence[Experiment], settings: RunSettings
    ) -> Sequence[PlannedRun]:
        """Return every run of these experiments, stage by stage (`Stage`).

        Within a stage the cheapest experiment comes first, and an experiment that scales others'
        grids before all. A run that two experiments show is made for the first of them."""
        check_options(experiments, settings)
        asked = (_scale_of(experiment, settings.profile) for experiment in experiments)
        scales = {scale for scale in asked if scale is not None}
        wanted = {*experiments, *scales}
        smoke = settings.profile is Profile.SMOKE and any(takes(e) for e in wanted)

        def order(experiment: Experiment) -> tuple[object, ...]:
            cost_s = estimate_s(experiment, settings.profile, settings.repeats)
            stage = stage_of(experiment, cost_s, smoke=smoke)
            return stage, experiment not in scales, cost_s, experiment.id

        durations = Durations(
            self.store,
            self._machine,
            settings.profile,
            [experiment.measurement for experiment in wanted],
            RecordStore(SHIPPED),
        )
        stages = itertools.groupby(sorted(wanted, key=order), key=lambda e: order(e)[0])
        runs: list[PlannedRun] = []
        for _, members in stages:
            found = (r for each in members for r in self._runs_of(each, settings, durations))
            runs += grouped([*found])
        return once(runs)

    def _runs_of(
        self, experiment: Experiment, settings: RunSettings, durations: Durations
    ) -> Iterator[PlannedRun]:
        campaign = self.campaign(experiment, settings)
        done = set()
        if not settings.again:
            done = {point_key(r.point, r.repeat) for r in campaign.records if r.settled}
        refused = self._backend.refusal(experiment.measurement.actions)
        impossible = f"its failures need {refused[0]}: {refused[1]}" if refused else None
        seconds = durations.of(experiment.measurement)
        if (own := announced(experiment, settings)) is not None:
            seconds = _always(own[0])
        cold = experiment.measurement.measured
        for repeat in range(_repeats(experiment, settings)):
            for point in _in_turn(experiment, settings, repeat):
                is_done = point_key(point, repeat) in done
                skipped = impossible or self._backend.lacks(_engines(experiment, point))
                yield PlannedRun(
                    experiment=experiment,
                    point=point,
                    repeat=repeat,
                    done=is_done,
                    seconds=0.0 if skipped else seconds(point, cold and not is_done),
                    skipped=skipped,
                    patient=settings.profile is Profile.SMOKE,
                )
                cold = cold and is_done

    def campaign(self, experiment: Experiment, settings: RunSettings) -> Campaign:
        """Return what this code has measured of an experiment with these settings."""
        return self.store.campaign(
            self.question(experiment, settings),
            self.code(experiment),
            self._machine,
            _repeats(experiment, settings),
            [*experiment.grid[settings.profile], *settings.beyond_grid(experiment)],
            settings.points(experiment),
        )

    def question(self, experiment: Experiment, settings: RunSettings) -> Question:
        """Return the question that these settings ask of an experiment on this machine."""
        servers = self._servers(experiment)
        unpinned = {name: version for name, version in servers.items() if name in UNPINNED}
        return Question(
            experiment=experiment.measurement.id,
            profile=settings.profile,
            root_seed=settings.root_seed,
            options=fingerprints(options_for(experiment, settings.options)),
            machine={**describe_machine(), **unpinned},
            backend=self._backend.name if experiment.origin is Origin.MEASURED else "",
        )

    def code(self, experiment: Experiment) -> str:
        """Return the fingerprint of all code that a run depends on.

        It is taken at the first call: this process keeps the code that it has loaded, even if a
        file is edited meanwhile."""
        if experiment.measurement.id not in self._codes:
            self._codes[experiment.measurement.id] = code_of(experiment.measurement, self._backend)
        return self._codes[experiment.measurement.id]

    def _servers(self, experiment: Experiment) -> Mapping[str, str]:
        """Return the versions of the servers, if a run needs any.

        Where this machine does not start them, its Java alone runs: the driver's."""
        if experiment.origin is not Origin.MEASURED:
            return {}
        found = server_versions()
        if self._backend.name.startswith(DEFAULT):
            return found
        return {name: found[name] for name in ("java", "java_vendor")}

    def execute(self, runs: Sequence[PlannedRun], settings: RunSettings) -> Sequence[Record]:
        """Make the missing runs. Ctrl-C keeps every finished one."""
        self.observer.planned(runs, seconds_left(runs))
        try:
            with self._others() as others:
                return Execution(self, runs, settings, others).all()
        finally:
            self._pool.close()
            self.store.discard_partial()

    def attempts(
        self,
        run: PlannedRun,
        settings: RunSettings,
        ahead: PendingRun | None,
        meanwhile: Callable[[], None] | None,
        rest_s: float = 0.0,
    ) -> Iterator[Record]:
        """Yield the record of every attempt at a run.

        An invalid run is made again, as is one in doubt. A run that its servers failed is made once
        more, on new ones. Where other load disturbed every attempt at an earlier run of the command
        already, the machine is busy for good, and disturbed runs are not made again. A disturbed
        pass or run waits for a calmer minute before it is made again. Nothing is made again in the
        time that the other missing runs need, which are planned to take ``rest_s``."""
        for number in range(1, ATTEMPTS + 1):
            if ahead is not None and number == 1:
                self._environment_failed = False
                record = self._keep(run, settings, ahead.result.result(), ahead.scratch)
            else:
                record = self._make(run, settings, number, meanwhile, rest_s)
            yield record
            if record.status == FAILED:
                if not self._environment_failed or number > 1:
                    return
            elif record.status != INVALID and (record.again is None or self._only_busy(record)):
                return
            pace = max(1.0, record.seconds / run.seconds) if run.seconds else 1.0
            spare_s = settings.left_s - record.seconds - pace * rest_s
            if spare_s < 0:
                return
            waits = record.again is not None and record.values.get("disturbed")
            if waits and number < ATTEMPTS:
                self._calmer(spare_s)
        self._busy = self._busy or record.values.get("disturbed") is not None

    def _calmer(self, spare_s: float) -> bool:
        """Wait for a calmer minute, not longer than the time to spare; False if none came."""
        at_most_s = min(WAIT_S, spare_s) // CALMER_S * CALMER_S
        if at_most_s <= 0:
            return False
        return self._calm(
            lambda text: self.observer.stage(text, None, None, None), at_most_s=at_most_s
        )

    def _only_busy(self, record: Record) -> bool:
        """Return True if other load alone is in doubt, on a machine that is busy for good."""
        return self._busy and record.again == record.values.get("disturbed")

    def _calibration(
        self, experiment: Experiment, settings: RunSettings
    ) -> Mapping[str, Any] | None:
        scale = _scale_of(experiment, settings.profile)
        if scale is None:
            return None
        valid = [record.values for record in self.campaign(scale, settings).valid]
        join = scale.measurement.join
        return None if not valid else valid[0] if join is None else join(valid)

    def _make(
        self,
        run: PlannedRun,
        settings: RunSettings,
        number: int,
        meanwhile: Callable[[], None] | None,
        rest_s: float,
    ) -> Record:
        self.observer.run_started(run)
        scratch = self.store.scratch()
        context = MeasuredContext(
            measurement=run.experiment.measurement.id,
            profile=settings.profile,
            root_seed=settings.root_seed,
            repeat=run.repeat,
            directory=scratch,
            options=options_for(run.experiment, settings.options),
            pool=self._pool,
            observer=self.observer,
            calibration=self._calibration(run.experiment, settings),
            meanwhile=meanwhile,
            calm=lambda: not self._busy and self._calmer(settings.left_s - run.seconds - rest_s),
        )
        started_unix_s, started = time.time(), time.monotonic()
        with PeakMemory() as memory:
            outcome, why = self._measure(run, context)
        if outcome is not None and context.passes:
            outcome = under_conditions(outcome, context.passes, settings.profile)
        made = RunResult(
            outcome=outcome,
            why=why,
            started_unix_s=started_unix_s,
            seconds=time.monotonic() - started,
            peak_memory_bytes=memory.largest_bytes,
            disk_bytes=size_of(scratch, self._pool.run_directory),
        )
        return self._keep(run, settings, made, scratch, number=number, setting=context.setting)

    def _keep(
        self,
        run: PlannedRun,
        settings: RunSettings,
        made: RunResult,
        scratch: Path,
        *,
        number: int = 1,
        setting: Setting = NOT_SET,
    ) -> Record:
        """Store the record of an attempt at a run, and return it."""
        # After the run, which fetches what is not there.
        versions = {**describe_versions(), **self._servers(run.experiment)}
        if run.experiment.origin is Origin.MEASURED:
            versions |= {"jars": _jars(setting.engine), **self._pool.versions}
        attempt = Attempt(
            question=self.question(run.experiment, settings),
            point=dict(run.point),
            repeat=run.repeat,
            repeats=_repeats(run.experiment, settings),
            code=self.code(run.experiment),
            commit=describe_commit(),
            versions=versions,
            started_unix_s=made.started_unix_s,
            attempt=number,
            engine=setting.engine,
            setting=setting.row(),
        )
        if made.outcome is not None:
            record = Record.completed(attempt, made.outcome, seconds=made.seconds)
        else:
            record = Record.failed(attempt, made.why, seconds=made.seconds)
        record = replace(
            record, peak_memory_bytes=made.peak_memory_bytes, disk_bytes=made.disk_bytes
        )
        series = made.outcome.series if made.outcome is not None else {}
        self.store.append(record, scratch, series, self._machine)
        self.observer.run_finished(run, record)
        return record

    def _measure(self, run: PlannedRun, context: MeasuredContext) -> tuple[Outcome | None, str]:
        """Return the outcome, or the error; after an error the next run gets a new cluster."""
        self._environment_failed = False
        if run.skipped:
            return Outcome(values={}, skipped=run.skipped), ""
        try:
            return run.experiment.measurement.run(run.point, context), ""
        except Impossible as refused:
            return Outcome(values={}, skipped=f"{refused.what}: {refused.remedy}"), ""
        except UsageError:
            raise
        except EnvironmentFailure as error:
            self._environment_failed = True
            why = str(error)
        except FaultlineError as error:
            why = str(error)
        except Exception:
            why = traceback.format_exc()
        self._close_after_failure(context.directory)
        return None, why

    def _close_after_failure(self, scratch: Path) -> None:
        """Stop the cluster of a failed run, and keep its logs with the record."""
        where = self._pool.run_directory
        if where is not None:
            keep_logs(where, scratch / LOGS)
            if self._hold is not None:
                self._hold(where)
        self._pool.close()


def _jars(engine: str) -> str:
    """Return the pinned jars of the servers, and of the engine if it has some of its own."""
    from harness.engines.kinds import ENGINES  # a computed run loads no engine

    packages = [Path(inspect.getfile(type(kind))).parent for kind in ENGINES if kind.name == engine]
    return jar_versions(*packages)


def _engines(experiment: Experiment, point: Point) -> Collection[str]:
    """Return the engines that a run may take: its point's, or else all of the measurement's."""
    chosen = [name.split(".")[2] for name in experiment.measurement.chooses]
    engine = str(point.get("engine"))
    return [engine] if engine in chosen else chosen


def _always(seconds: float) -> Seconds:
    return lambda point, cold: seconds


def announced(experiment: Experiment, settings: RunSettings) -> tuple[float, str] | None:
    """Return the duration of a run that the user's options decide, and the reason."""
    measurement = experiment.measurement
    if measurement.lasts is None:
        return None
    options = options_for(experiment, settings.options)
    usual_s = measurement.seconds_per_run[settings.profile]
    return measurement.lasts(settings.profile, settings.points(experiment), options, usual_s)


def _repeats(experiment: Experiment, settings: RunSettings) -> int:
    asked = None if experiment.measurement.scheduling.once else settings.repeats
    return asked or experiment.measurement.repeats[settings.profile]


def _in_turn(experiment: Experiment, settings: RunSettings, repeat: int) -> Sequence[Point]:
    """Return the points of one repetition in the order in which they are measured."""
    points = settings.points(experiment)
    if not experiment.measurement.scheduling.in_turns:
        return points
    draws = generator(settings.root_seed, "turns", experiment.measurement.id, repeat)
    return [points[number] for number in draws.permutation(len(points))]


def _scale_of(experiment: Experiment, profile: Profile) -> Experiment | None:
    """Return the experiment that scales the grid of this one; none in the smoke profile."""
    return None if profile is Profile.SMOKE else experiment.scaled_by


def check_options(experiments: Sequence[Experiment], settings: RunSettings) -> None:
    """Raise `UsageError` for an option that changes nothing, and for one with an unusable value."""
    for name in settings.options:
        if not any(name in experiment.measurement.accepts for experiment in experiments):
            raise UsageError(
                f"--{name} changes nothing in {_some([e.id for e in experiments])}",
                remedy=f"leave --{name} out, or name an experiment that takes it "
                "(./faultline list shows which)",
            )
    for experiment in experiments:
        options = options_for(experiment, settings.options)
        if experiment.measurement.check is not None and options:
            experiment.measurement.check(settings.profile, options)


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
