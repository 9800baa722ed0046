"""PPA at query level: the input of the second query, and the use of its results."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from harness.cluster.base import Cluster, ClusterSpec, Node
from harness.engines.base import Event, EventKind, Setup, Work
from harness.engines.deliveries import COPY_HEADER
from harness.engines.structured import standby
from harness.engines.structured.applications import Application
from harness.engines.structured.engine import StructuredEngine, StructuredKind
from harness.engines.structured.parameters import StockParameters
from harness.errors import UsageError
from harness.load.plan import BY_THE_CLOCK
from harness.measure.collector import Message
from harness.measure.versions import STABILITY, Stability, versions
from tests.engines.test_structured import Told
from workloads.wordcount import word_count

WORKLOAD = word_count(partitions=4)
(SOURCE,) = (source.name for source in WORKLOAD.sources)


def reading(*numbers: int, source: str = SOURCE) -> Setup:
    """Return a setup whose second query reads these partitions of a source."""
    return Setup(scheme="ppa", parameters=StockParameters(partitions={source: numbers}))


SETUP = reading(0, 2)
SPEC = ClusterSpec(racks=2, workers_per_rack=1)
START_S = 1_800_000_000.0


def event(kind: EventKind, at_s: float, copy: int = 0) -> Event:
    return Event(kind=kind, at_unix_s=at_s, copy=copy)


@pytest.mark.parametrize("numbers", [(-1,), "0", (0.5,)])
def test_partitions_that_are_not_whole_numbers_are_refused(numbers: Any) -> None:
    with pytest.raises(UsageError, match="partitions of source 'reports'"):
        StockParameters(partitions={"reports": numbers})


def test_other_settings_than_those_of_spark_are_refused() -> None:
    with pytest.raises(UsageError, match="'checkpoint_s' is not a setting of Spark"):
        StockParameters(conf={"checkpoint_s": "1"})


@pytest.mark.parametrize("setup", [Setup(scheme="ppa"), replace(SETUP, scheme="active")])
def test_partitions_go_with_ppa_alone(setup: Setup) -> None:
    with pytest.raises(UsageError, match="do not go with"):
        StructuredKind().lacks(setup, WORKLOAD, SPEC)
    with pytest.raises(UsageError, match="do not go with"):
        StructuredKind().open(setup, cast(Cluster, None))


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        (reading(), "no whole MC-tree"),
        (reading(0, source="others"), "no whole MC-tree"),
        (reading(4), "has 4 partitions"),
    ],
)
def test_a_second_query_that_could_give_nothing_is_skipped(setup: Setup, why: str) -> None:
    assert why in (StructuredKind().lacks(setup, WORKLOAD, SPEC) or "")


def test_a_second_query_that_can_be_run_lacks_nothing_but_a_rack() -> None:
    kind = StructuredKind()
    assert kind.lacks(SETUP, WORKLOAD, SPEC) is None
    assert "2 racks" in (
        kind.lacks(SETUP, WORKLOAD, ClusterSpec(racks=1, workers_per_rack=2)) or ""
    )


def test_warm_applications_serve_any_partitions_and_no_other_scheme() -> None:
    kind = StructuredKind()
    assert kind.key(SETUP) == kind.key(reading(1))
    assert kind.key(SETUP) != kind.key(Setup(scheme="active"))


def test_the_first_is_away_from_its_first_loss_until_its_next_batch() -> None:
    events = [
        event(EventKind.DETECTED, 1.0, copy=1),
        event(EventKind.DETECTED, 2.0),
        event(EventKind.DETECTED, 2.5),
        event(EventKind.RECOVERED, 4.0),
        event(EventKind.RECOVERED, 4.0),
        event(EventKind.DETECTED, 7.0),
    ]
    assert standby.away(events) == [(2.0, 4.0), (7.0, math.inf)]
    assert standby.away([]) == []


def deliveries(*rows: tuple[int, float, Stability]) -> pd.DataFrame:
    """Make deliveries of (window, arrival, stability); a tentative count is smaller."""
    return pd.DataFrame(
        [
            {
                "window_start_s": float(window),
                "word": "all",
                "count": 1 if stability is Stability.TENTATIVE else 2,
                "arrival_s": arrival_s,
                STABILITY: stability.value,
            }
            for window, arrival_s, stability in rows
        ]
    )


T, S = Stability.TENTATIVE, Stability.STABLE
IDENTITY = ["window_start_s", "word"]


def shown(frame: pd.DataFrame, *spans: tuple[float, float]) -> list[tuple[float, float, str]]:
    found = standby.shown(frame, spans, IDENTITY)
    return list(zip(found["window_start_s"], found["arrival_s"], found[STABILITY], strict=True))


def test_nothing_tentative_is_shown_while_the_first_is_whole() -> None:
    frame = deliveries((0, 1.0, T), (0, 1.2, S), (1, 2.0, T), (1, 2.2, S))
    assert shown(frame) == [(0, 1.2, "stable"), (1, 2.2, "stable")]


def test_what_was_held_is_shown_at_the_loss_and_what_comes_then_at_once() -> None:
    frame = deliveries((1, 4.5, T), (2, 6.0, T), (1, 9.0, S), (2, 9.0, S), (3, 9.5, T))
    assert shown(frame, (5.0, 9.1)) == [
        (1, 5.0, "tentative"), (2, 6.0, "tentative"), (1, 9.0, "stable"), (2, 9.0, "stable"),
    ]  # fmt: skip


def test_what_the_first_has_given_is_never_shown_again() -> None:
    frame = deliveries((0, 3.0, T), (0, 4.0, S), (1, 5.5, S), (1, 6.0, T))
    assert shown(frame, (5.0, 9.0)) == [(0, 4.0, "stable"), (1, 5.5, "stable")]


def test_a_second_loss_shows_what_the_first_one_did_not() -> None:
    frame = deliveries((4, 11.0, T), (4, 15.0, S))
    assert shown(frame, (5.0, 9.0), (12.0, 14.0)) == [(4, 12.0, "tentative"), (4, 15.0, "stable")]
    assert shown(frame, (5.0, 9.0)) == [(4, 15.0, "stable")]


def test_an_output_of_the_second_alone_is_shown() -> None:
    assert shown(deliveries((1, 4.5, T)), (4.0, math.inf)) == [(1, 4.5, "tentative")]


def message(window_s: int, append_s: float, *, tentative: bool) -> Message:
    value = dict.fromkeys(WORKLOAD.columns, "a") | {
        WORKLOAD.window_start: round((START_S + window_s) * 1000),
        **dict.fromkeys(WORKLOAD.values, 1 if tentative else 2),
    }
    headers = {COPY_HEADER: b"1", STABILITY: b"tentative"} if tentative else {COPY_HEADER: b"0"}
    return Message(
        append_ms=round((START_S + append_s) * 1000),
        partition=0,
        offset=0,
        value=json.dumps(value).encode(),
        copy=int(tentative),
        headers=headers,
    )


class TwoRacks:
    """A cluster that has only nodes."""

    def nodes(self) -> list[Node]:
        return [Node(name=f"r{n}n1", rack=f"r{n}", worker=f"r{n}w1", host=f"h{n}") for n in (1, 2)]


def test_the_engine_shows_what_its_events_allow(tmp_path: Path) -> None:
    """The first application loses its executor at 5 s and commits again at 9 s."""
    whole = Told(
        tmp_path,
        [
            {"event": "executors", "count": 1, "hosts": ["h1"], "at_unix_s": START_S},
            {"event": "executors", "count": 0, "hosts": [], "at_unix_s": START_S + 5},
            {"event": "progress", "rows": 3, "at_unix_s": START_S + 9},
        ],
    )
    applications = [cast(Application, each) for each in (whole, Told(tmp_path, []))]
    engine = StructuredEngine(applications, cast(Cluster, TwoRacks()))
    sent = [
        message(0, 4.0, tentative=True), message(0, 4.2, tentative=False),
        message(1, 6.0, tentative=True), message(1, 8.9, tentative=False),
    ]  # fmt: skip
    load = SimpleNamespace(event=BY_THE_CLOCK)
    work = cast(Work, SimpleNamespace(workload=WORKLOAD, load=load))
    engine.configure(SETUP)
    seen = versions(engine.read(sent, work, START_S), WORKLOAD.identity_in_run, WORKLOAD.values)
    assert (seen.tentative, seen.corrections, seen.uncorrected) == (1, 1, 0)
    assert len(seen.stable) == 2
    engine.configure(Setup(scheme="active"))
    assert len(engine.read(sent, work, START_S)) == 4
