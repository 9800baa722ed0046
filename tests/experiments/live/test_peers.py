"""Peers: outages split into parts, claims that can fail, and what is asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import peers
from experiments.live._outages import PARTS, outage, parts
from experiments.live.peers import AS_IT_COMES, EXPERIMENT, OWN, STREAMS, TASKS, TUNED, WORKER
from harness.cluster.base import ClusterSpec
from harness.errors import UsageError
from harness.measurement import Context
from harness.results.record import Profile
from tests.experiments.live.judging import held, panels

USUAL_S = 0.4


def windows(*late: float) -> pd.DataFrame:
    """Return windows that end every second from 10 s on, as late as given."""
    frame = pd.DataFrame({"ended_s": [10.0 + number for number in range(len(late))]})
    return frame.assign(late_s=list(late), arrived_s=frame["ended_s"] + list(late))


def incidents(*rows: tuple[float, str, dict[str, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"at_s": at, "event": event, "target": "r1n1", **more} for at, event, more in rows],
        columns=["at_s", "event", "target", "there_after_s", "ready_after_s"],
    )


def split(seen: pd.DataFrame, late: list[float], *, transactional: bool = False) -> dict[str, Any]:
    return outage(windows(*late), seen, 10.5, 20.0, {"r1n1"}, USUAL_S, transactional)


def test_an_outage_is_split_at_what_three_observers_saw() -> None:
    seen = incidents((12.0, "detected", {}), (12.5, "restarted", {}), (13.5, "recovered", {}))
    found = split(seen, [0.4, 5.0, 4.5, 3.5, 0.4, 0.4], transactional=True)
    assert found["outage_s"] == pytest.approx(6.5 - 0.5 + 0.0, abs=0.51)
    assert [found[part] for part in PARTS] == pytest.approx([1.5, 0.5, 1.0, 2.5, 0.5])
    assert sum(found[part] for part in PARTS) == pytest.approx(found["outage_s"])
    assert found["caught_up"]


def test_the_task_engines_steps_count_from_the_detection() -> None:
    back = {"there_after_s": 0.1, "ready_after_s": 0.3}
    seen = incidents((10.6, "detected", {}), (11.5, "recovered", back))
    found = split(seen, [0.4, 2.0, 0.4])
    assert [found[part] for part in PARTS] == pytest.approx([0.1, 0.1, 0.2, 0.0, 2.1])


def test_without_a_late_result_there_is_no_outage_and_without_a_report_no_part() -> None:
    seen = incidents((10.6, "detected", {}))
    assert split(seen, [0.4, 0.4, 0.4])["outage_s"] == 0.0
    blind = split(incidents(), [0.4, 3.0, 0.4])
    assert blind["outage_s"] == pytest.approx(3.5)
    assert blind["detection_s"] is None
    silent = pd.DataFrame(columns=["at_s", "copy", "event"])
    assert split(silent, [0.4, 3.0, 0.4]) == pytest.approx(blind, nan_ok=True)


def test_without_a_result_before_the_first_kill_nothing_is_known() -> None:
    late = windows(0.4, 5.0, 0.4)
    assert outage(late, incidents(), 10.5, 20.0, {"r1n1"}, float("nan"), False)["outage_s"] is None


def test_an_observer_who_contradicts_another_makes_the_sum_too_large() -> None:
    assert sum(parts([0.0, 5.0, 5.0, 5.0, 5.0, 3.0]).values()) == 5.0


def tables(**changes: Any) -> dict[str, pd.DataFrame]:
    """Return a row per system and kind of kill, and one kill of each, with all well."""
    points = EXPERIMENT.grid[Profile.PAPER]
    runs = pd.DataFrame([{**point, "run": number} for number, point in enumerate(points)])
    wrong = dict.fromkeys(("lost", "duplicated", "contradictions"), 0)
    promised = [(e, t) in peers.EXACTLY_ONCE for e, t in zip(runs.engine, runs.tuning, strict=True)]
    kills = runs.assign(
        outage_s=10.0, detection_s=6.0, restart_s=0.1, restore_s=0.2, transaction_s=1.0,
        replay_s=2.7,
    )  # fmt: skip
    return {
        "runs": runs.assign(**wrong, kills=5, exactly_once=promised).assign(
            **{k: v for k, v in changes.items() if k not in kills}
        ),
        "outages": kills.assign(**{k: v for k, v in changes.items() if k in kills}),
    }


def test_all_holds_where_all_is_well() -> None:
    assert set(held(EXPERIMENT, tables()).values()) == {True}


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("killed", {"kills": 0}),
        ("exact-under-exactly-once", {"duplicated": 1}),
        ("exact-under-exactly-once", {"lost": 1}),
        ("at-least-once-loses-nothing", {"contradictions": 1}),
        ("parts-add-up", {"replay_s": 4.0}),
        ("standby-takes-over-at-once", {"restore_s": 1.5}),
        ("detection-is-most-of-it", {"detection_s": 1.0}),
    ],
)
def test_each_claim_can_fail(claim: str, changes: dict[str, Any]) -> None:
    assert held(EXPERIMENT, tables(**changes))[claim] is False


def test_repeats_are_allowed_at_least_once() -> None:
    assert held(EXPERIMENT, tables(duplicated=1))["at-least-once-loses-nothing"]


@pytest.mark.slow
def test_the_figure_names_every_system_and_what_was_published() -> None:
    (axes,) = panels(EXPERIMENT, tables())
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert f"{STREAMS}, {TUNED}: {WORKER}" in names
    assert "published: Flink" in names
    (empty,) = panels(EXPERIMENT, {"runs": pd.DataFrame(), "outages": pd.DataFrame()})
    assert empty.texts


def skipped(engine: str, *asked: str, tuning: str = AS_IT_COMES) -> str | None:
    def no_cluster(spec: ClusterSpec) -> None:
        raise AssertionError("nothing may be started")

    context = SimpleNamespace(
        options={"engine": asked} if asked else {}, profile=Profile.SMOKE, cluster=no_cluster,
        seed=lambda *names: 1,
    )  # fmt: skip
    return peers.run(peers.point(engine, tuning, WORKER), cast(Context, context)).skipped


def test_what_was_not_asked_for_is_skipped_before_anything_starts() -> None:
    assert skipped(STREAMS, TASKS) == "only tasks was asked for"
    assert skipped(OWN) == "no engine of your own was given: --engine FILE.yaml"
    with pytest.raises(AssertionError, match="nothing may be started"):
        skipped(TASKS)


def test_wrong_engines_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no engine 'kafkastreams'"):
        peers.check(Profile.QUICK, {"engine": ["kafkastreams"]})
    with pytest.raises(UsageError, match="there is no file"):
        peers.check(Profile.QUICK, {"engine": [tmp_path / "one.yaml"]})


def test_every_system_has_a_gap_and_settings() -> None:
    assert set(peers.GAPS_S) == {*peers.SETTINGS, (OWN, AS_IT_COMES)}
    assert set(peers.SETTINGS) > peers.EXACTLY_ONCE
