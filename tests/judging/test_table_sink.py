"""The database table that follows a pass's results."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from harness.failures.schedule import NO_FAILURES
from harness.judging.table_sink import TableWriter, table_rows
from harness.measure.collector import Collector, Message
from harness.measure.versions import STABILITY, Stability
from tests.judging.constructed import judged, record, truth
from workloads.accident import accidents
from workloads.base import Workload

ACCIDENTS: Workload = accidents()
Row = tuple[int, int, str]


class Topic:
    """The messages of a collector, added by hand."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.all_written = threading.Event()
        """A request beyond the end: everything before it was processed."""

    def add(self, *rows: Row, copy: int = 0, stability: Stability | None = None) -> None:
        headers = {} if stability is None else {STABILITY: stability.value.encode()}
        for row in rows:
            value = json.dumps(dict(zip(ACCIDENTS.columns, row, strict=True))).encode()
            offset = len(self.messages)
            self.messages.append(Message(1000 + offset, 0, offset, value, copy, headers))

    def since(self, number: int) -> Sequence[Message]:
        if number and number == len(self.messages):
            self.all_written.set()
        return self.messages[number:]


def writing(topic: Topic, path: Path) -> TableWriter:
    return TableWriter(ACCIDENTS, cast(Collector, topic), path)


FIRST: list[Row] = [(1_800_000_000_000, 3, "17"), (1_800_000_000_000, 4, "9 21")]
SECOND: list[Row] = [(1_800_000_001_000, 3, "17 18")]


def test_every_result_stands_in_the_table_once(tmp_path: Path) -> None:
    topic = Topic()
    with writing(topic, tmp_path / "a.sqlite") as writer:
        topic.add(*FIRST)
        topic.add(*FIRST, copy=1)
        topic.add(*SECOND)
        topic.add(*SECOND, copy=1)
        found = writer.finish()
    assert list(map(tuple, found.to_numpy().tolist())) == [*FIRST, *SECOND]
    assert list(found.columns) == ACCIDENTS.columns


def test_tentative_results_stay_out_of_the_table(tmp_path: Path) -> None:
    topic = Topic()
    with writing(topic, tmp_path / "a.sqlite") as writer:
        topic.add((*SECOND[0][:2], "99"), copy=1, stability=Stability.TENTATIVE)
        topic.add(*SECOND, stability=Stability.STABLE)
        found = writer.finish()
    assert found["car_ids"].tolist() == ["17 18"]


def test_rows_are_there_before_the_end(tmp_path: Path) -> None:
    """The writer does not wait for `finish`: a reader of the table sees rows while it runs."""
    topic, path = Topic(), tmp_path / "a.sqlite"
    topic.add(*FIRST)
    with writing(topic, path):
        assert topic.all_written.wait(30)
        assert len(table_rows(ACCIDENTS, path)) == 2


def test_what_goes_wrong_is_raised_to_whoever_waits(tmp_path: Path) -> None:
    with (
        writing(Topic(), tmp_path / "nowhere" / "a.sqlite") as writer,
        pytest.raises(sqlite3.OperationalError),
    ):
        writer.finish()


@pytest.mark.parametrize(("dropped", "equal"), [(0, True), (2, False)])
def test_a_run_compares_the_table_with_the_truth(dropped: int, equal: bool) -> None:
    failed = record(table=truth().iloc[dropped:])
    values = judged(failed, schedule=NO_FAILURES).values
    assert values["table_equals_truth"] is equal
    assert values["table_rows"] == len(truth()) - dropped
    assert ("missing" in values["table_difference"]) is not equal
