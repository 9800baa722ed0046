"""A worker is really killed under a query in real-time mode; the figures' tables and claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.stock import modes, real_time_kill
from experiments.stock.real_time_kill import EXPERIMENT, KINDS, SCALES, schedule
from harness.claims import ClaimKind
from harness.engines.kinds import find_engine
from harness.pages.assessment import verdicts
from harness.results.record import Outcome, Profile
from harness.results.tables import Results
from tests.experiments.stock.test_real_kill import OneRun

POINT = EXPERIMENT.grid[Profile.SMOKE][0]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    context = OneRun(tmp_path_factory.mktemp("run"))
    try:
        yield EXPERIMENT.measurement.run(POINT, context)
    finally:
        context.applications.close()
        for cluster in context.started:
            cluster.stop()


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_killed_worker_ends_the_query_and_its_last_values_are_right(
    measured: Outcome, tmp_path: Path
) -> None:
    (one,) = measured.series["variants"].to_dict("records")
    assert one["kills_done"] == 1, one
    assert one["revises"]
    assert one["restarts"] >= 1, "a lost task ends a query in this mode"
    assert one["output_equals_truth"], one["difference_from_truth"]
    assert one["output_equals_twin"], one["difference_from_twin"]
    assert one["early_versions"] > 0
    for name, series in measured.series.items():
        series.to_parquet(tmp_path / f"{name}.parquet", index=False)
    row = {**measured.values, **POINT, "repeat": 0, "run": "only"}
    table = EXPERIMENT.table(Results(pd.DataFrame([row]), {"only": tmp_path}))
    claims = verdicts(EXPERIMENT, table)
    broken = [c for c in claims if c.kind is ClaimKind.INVARIANT and not c.held]
    assert not broken, broken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checkpoint_s", [5.0, 60.0])
def test_each_kill_has_a_phase_of_its_own_within_the_load(kind: str, checkpoint_s: float) -> None:
    for scale in SCALES.values():
        phases = set()
        for number in range(scale.kills):
            made = schedule(KINDS[kind], scale, checkpoint_s, number=number, part=0.7)
            (kill,) = made.kills
            assert max(event.at_s for event in made.events) < scale.load_s(checkpoint_s)
            phases.add(int((kill.at_s - scale.before_s) / checkpoint_s * scale.kills))
        assert phases == set(range(scale.kills))
    assert SCALES[Profile.QUICK].kills >= 5


def test_every_kind_fits_the_cluster() -> None:
    names = set(real_time_kill.SPEC.node_names) | set(real_time_kill.SPEC.rack_names)
    for kind in KINDS.values():
        plain = {target.removeprefix("executor-") for target in kind.targets}
        assert plain <= names | {"driver-0"}
        assert kind.spare_slots < real_time_kill.SPEC.task_slots - 2
    assert {kind for scale in SCALES.values() for kind in scale.kinds} == set(KINDS)


def kills(**outages_s: list[float]) -> dict[str, pd.DataFrame]:
    """Return tables in which each kind of kill has these outages."""
    rows = [
        {"scheme": "checkpoint", "checkpoint_s": 5.0, "kind": kind.replace("_", "-"),
         "outage_s": outage_s}
        for kind, each in outages_s.items()
        for outage_s in each
    ]  # fmt: skip
    passes = pd.DataFrame(
        [
            {"scheme": "checkpoint", "checkpoint_s": 5.0, "kind": kind.replace("_", "-"),
             "number": 0, "repeat": 0, "kills_planned": len(each), "kills_done": len(each),
             "output_equals_truth": True, "output_equals_twin": True, "dropped_rows": 0,
             "duplicates": 5, "setbacks": 2, "difference_from_truth": "",
             "difference_from_twin": ""}
            for kind, each in outages_s.items()
        ]
    )  # fmt: skip
    return {"kills": pd.DataFrame(rows), "passes": passes}


@pytest.mark.parametrize(
    ("spare", "tight", "held"),
    [(4.0, 9.0, (True, True)), (12.0, 12.1, (False, False))],
)
def test_claims_follow_the_outages(spare: float, tight: float, held: tuple[bool, bool]) -> None:
    tables = kills(
        worker=[spare + i / 100 for i in range(6)],
        worker_tight=[tight + i / 100 for i in range(6)],
    )
    found = {claim.id: claim.decide(tables) for claim in EXPERIMENT.claims}
    assert (found["short-with-spare-slots"].held, found["spare-slots-shorten"].held) == held
    assert found["equals-truth"].held
    wrong = {**tables, "passes": tables["passes"].assign(output_equals_truth=False)}
    assert real_time_kill.CLAIMS[1].decide(wrong).held is False
    late = {**wrong, "passes": wrong["passes"].assign(dropped_rows=7)}
    assert real_time_kill.CLAIMS[1].decide(late).held is None, "it answered another question"
    assert real_time_kill.nothing_dropped.decide(late).held is False
    EXPERIMENT.draw(tables, Figure())


def test_each_point_of_the_modes_has_its_settings() -> None:
    kind = find_engine("structured")
    for grid in modes.EXPERIMENT.grid.values():
        for point in grid:
            given = modes.SETTINGS[str(point["mode"]), str(point["settings"])]
            assert given.real_time == (point["mode"] == modes.REAL)
    assert kind.parameters is type(modes.SETTINGS[modes.REAL, modes.TUNED])


def test_modes_are_compared_at_the_same_rate() -> None:
    def tables(real_s: float, micro_s: float) -> dict[str, pd.DataFrame]:
        windows = [
            {"mode": mode, "settings": "default", "rate_per_s": rate, "latency_p50_s": s + n / 1e3,
             "latency_p99_s": 2 * s + n / 1e3, "run": f"{mode} {n}"}
            for mode, s in ((modes.REAL, real_s), (modes.MICRO, micro_s))
            for rate in (25.0, 100.0)
            for n in range(6)
        ]  # fmt: skip
        rates = [
            {"mode": mode, "settings": "default", "rate_per_s": rate, "equal": True,
             "difference": "", "dropped": 0,
             "records_per_core_s": 100.0 if mode == modes.REAL else 300.0}
            for mode in (modes.REAL, modes.MICRO)
            for rate in (25.0, 100.0)
            for _ in range(6)
        ]  # fmt: skip
        return {"windows": pd.DataFrame(windows), "rates": pd.DataFrame(rates)}

    better, worse = (
        {claim.id: claim.decide(tables(real_s, 0.4)).held for claim in modes.CLAIMS}
        for real_s in (0.1, 0.5)
    )
    assert better == dict.fromkeys(better, True)
    assert (worse["lower-median"], worse["lower-tail"]) == (False, False)
    modes.EXPERIMENT.draw(tables(0.1, 0.4), Figure())
    one_run = tables(0.1, 0.4)
    one_run["windows"] = one_run["windows"].assign(run=one_run["windows"]["mode"])
    decided = {claim.id: claim.decide(one_run) for claim in modes.CLAIMS}["lower-median"]
    assert decided.held is None, "its six windows are one sample"
