"""The contract of every live engine. An engine's tests inherit both classes.

`EngineKindContract` starts nothing. `EngineContract` opens the engine once on a cluster and runs
passes on it as `harness.judging` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cluster.base import Cluster, ClusterSpec
from harness.engines import kinds
from harness.engines.base import Engine, EngineKind, EventKind, Setup
from harness.errors import UsageError
from harness.failures.generators import one_target
from harness.judging.passes import Pass
from harness.judging.run import LiveRun, measure
from harness.judging.runner import steady_plan
from harness.measurement import Context
from harness.results.setting import Setting
from tests.experiments.smoke import Unrecorded
from workloads.base import Workload

LARGE = ClusterSpec(racks=3, workers_per_rack=4, nodes_per_worker=2, cores_per_worker=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OtherParameters:
    """The parameters of an engine that does not exist."""


class EngineKindContract:
    """Inherit, set `kind` and a `workload` that it can run."""

    kind: EngineKind
    workload: Workload

    @pytest.fixture
    def scheme(self) -> str:
        """Return the first scheme that needs no parameters."""
        for scheme in self.kind.schemes:
            try:
                self.kind.needs(Setup(scheme=scheme))
            except UsageError:
                continue
            return scheme
        raise AssertionError("every scheme needs parameters")

    def test_it_describes_itself(self) -> None:
        assert self.kind.name
        assert self.kind.summary
        assert self.kind.schemes
        for needs in self.kind.schemes.values():
            assert needs.summary
            assert 1 <= needs.racks <= LARGE.racks
            assert 1 <= needs.nodes <= len(LARGE.node_names)

    def test_what_it_can_run_lacks_nothing(self, scheme: str) -> None:
        assert self.kind.lacks(Setup(scheme=scheme), self.workload, LARGE) is None

    def test_a_cluster_that_is_too_small_is_a_reason(self) -> None:
        for scheme, needs in self.kind.schemes.items():
            if needs.racks == 1:
                continue
            try:
                reason = self.kind.lacks(
                    Setup(scheme=scheme), self.workload, ClusterSpec(racks=needs.racks - 1)
                )
            except UsageError:  # this scheme needs parameters
                continue
            assert reason is not None
            assert repr(scheme) in reason
            assert f"{needs.racks} racks" in reason

    def test_a_workload_without_its_form_is_a_reason(self, scheme: str) -> None:
        other = replace(self.workload, forms={"of-nobody": "nothing"})
        reason = self.kind.lacks(Setup(scheme=scheme), other, LARGE)
        assert reason is not None
        assert repr(self.kind.form) in reason
        assert other.name in reason

    def test_what_it_does_not_know_is_refused(self, scheme: str) -> None:
        with pytest.raises(UsageError, match="no scheme 'nonsense'"):
            self.kind.lacks(Setup(scheme="nonsense"), self.workload, LARGE)
        with pytest.raises(UsageError, match="was given _OtherParameters"):
            self.kind.needs(Setup(scheme=scheme, parameters=_OtherParameters()))

    def test_equal_setups_share_an_engine(self, scheme: str) -> None:
        setup = Setup(scheme=scheme)
        assert self.kind.key(setup) == self.kind.key(Setup(scheme=scheme))
        if self.kind.parameters is not None:
            default = self.kind.parameters()
            assert self.kind.key(setup) == self.kind.key(replace(setup, parameters=default))


class Sharing(Unrecorded):
    """A context that hands out the engine of the test. Its profile decides nothing by time."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.directory, self._engine = directory, engine

    def keep(self, key: str, start: Any, *, check: Callable[[Any], None]) -> Any:
        check(self._engine)
        return self._engine

    def measures(self, setting: Setting) -> None:
        assert setting.engine == self._engine.name


class EngineContract:
    """Inherit, set the fields, and give the fixture `cluster`, scoped as `engine`.

    The engine must survive the loss of one of its targets under `setup` without losing a result."""

    kind: EngineKind
    workload: Workload
    setup: Setup
    interval_s = 0.5
    rate_per_s = 200.0
    load_s = 6.0
    kill_s, away_s = 2.0, 1.0

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, cluster: Cluster) -> Iterator[Engine]:
        with cls.kind.open(cls.setup, cluster) as engine:
            engine.configure(cls.setup)
            yield engine

    @pytest.fixture
    def context(self, engine: Engine, tmp_path: Path) -> Context:
        return cast(Context, Sharing(engine, tmp_path))

    def test_it_is_ready_when_it_is_opened(self, engine: Engine) -> None:
        assert engine.name == self.kind.name
        engine.check()
        engine.raise_problems()
        names = [node.name for node in engine.targets()]
        assert names
        assert len(set(names)) == len(names)
        assert engine.closes_after_s(self.workload) >= 0

    def test_a_pass_delivers_the_truth(
        self, engine: Engine, cluster: Cluster, context: Context
    ) -> None:
        plan = steady_plan("contract", self.workload, self.rate_per_s, self.load_s, self.interval_s)
        with Pass(plan, cluster, engine, cluster.scratch("contract"), context) as one:
            record = one.run()
            truth = engine.truth(one.work)
        assert record.drained
        assert len(truth) == len(record.deliveries) > 0
        assert set(self.workload.columns) == set(truth.columns)
        assert set(self.workload.identity_in_run) <= set(record.deliveries.columns)
        assert {"arrival_s", "copy", "stability"} <= set(record.deliveries.columns)
        assert record.deliveries["arrival_s"].is_monotonic_increasing
        times = [event.at_unix_s for event in engine.events()]
        assert times == sorted(times), "events are known after the end, in the order of time"
        before, after = engine.usage(), engine.usage()
        assert before.keys() == after.keys()
        for name, used in before.items():
            if used.cpu_s is not None:
                assert used.cpu_s <= (after[name].cpu_s or 0.0), "usage is cumulative"
        engine.check()

    def test_a_failure_is_noticed_and_changes_no_result(
        self, engine: Engine, cluster: Cluster, context: Context, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kinds, "ENGINES", (self.kind,))
        victim = engine.targets()[0].name
        run = LiveRun(
            engine=self.kind.name,
            setup=self.setup,
            workload=self.workload,
            interval_s=self.interval_s,
            rate_per_s=self.rate_per_s,
            load_s=self.load_s,
            warmup_s=0,
            first_warmup_s=0,
            settle_s=0.5,
            schedule=one_target(victim, at_s=self.kill_s, restart_after_s=self.away_s),
            timed=False,
        )
        outcome = measure(run, cluster, context)
        assert outcome.values["kills_done"] == 1
        assert outcome.values["output_equals_truth"], outcome.values["difference_from_truth"]
        assert outcome.values["output_equals_twin"], outcome.values["difference_from_twin"]
        incidents = outcome.series["incidents"]
        assert {EventKind.DETECTED, EventKind.RECOVERED} <= set(incidents["event"])
        assert victim in set(incidents["target"]) | set(incidents.get("node", ()))
        assert incidents["at_s"].is_monotonic_increasing
        assert {node.name for node in engine.targets()} <= set(outcome.series["usage"]["who"])
