"""Batches by intended time, and reading an output partition back: without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.engines.tasks.exchange import OF_SINK, OutputTail, Unreadable
from harness.engines.tasks.pacing import Arrivals, Links, Speed
from harness.engines.tasks.sources import SourceReader
from harness.errors import UsageError
from harness.hosting.codec import encode
from harness.protocol.output import OutputFence

START_US, BATCH_US = 1_800_000_000_000_000, 100_000


def record(ms: int, offset: int, value: bytes = b"x", sink: int = 0) -> Any:
    """Return what a reader uses of a Kafka message; a key is none, as of no ordinary record."""
    return SimpleNamespace(
        timestamp=lambda: (1, START_US // 1000 + ms), offset=lambda: offset, key=lambda: None,
        value=lambda: value, headers=lambda: [(OF_SINK, str(sink).encode())],
    )  # fmt: skip


def reading(give: Any, **options: Any) -> SourceReader:
    given = {"partition": 0, **options}
    return SourceReader(first=0, start_us=START_US, batch_us=BATCH_US, give=give, **given)


def cut(times_ms: list[int]) -> dict[int, list[int]]:
    """Return, by batch, the offsets of records at these times, one call for each."""
    found: dict[int, list[int]] = {}

    def give(batch: int, table: Any) -> None:
        assert batch == len(found), "batches come in order, each once"
        found[batch] = table.column("offset").to_pylist()

    reader = reading(give)
    for offset, ms in enumerate(times_ms):
        reader.take(reader.cut([record(ms, offset)]))
    return found


def test_time_may_go_backwards_within_a_batch_alone() -> None:
    assert cut([0, 50, 20, 99, 100]) == {0: [0, 1, 2, 3]}
    for times in ([0, 150, 99], [0, 150, 160, 99, 200], [350, 150]):
        with pytest.raises(Unreadable, match=f"record {times.index(min(times[1:]))} is of batch"):
            cut(times)
        reader = reading(lambda batch, table: None)
        with pytest.raises(Unreadable, match="by its time stamp") as raised:
            reader.cut([record(ms, offset) for offset, ms in enumerate(times)])
        assert "LogAppendTime" in raised.value.remedy


def test_times_are_read_only_where_somebody_looks_at_them() -> None:
    for with_times in (True, False):
        given: dict[int, Any] = {}
        reader = reading(given.__setitem__, partition=3, with_times=with_times)
        reader.take(reader.cut([record(10, 0), record(30, 1), record(100, 2)]))
        table = given.pop(0)
        stamps = [START_US + 10_000, START_US + 30_000] if with_times else [None, None]
        assert table.column("timestamp").cast("int64").to_pylist() == stamps
        assert table.column("partition").to_pylist() == [3, 3]


def test_a_sink_reads_what_is_its_own() -> None:
    seen: list[int] = []
    tail = OutputTail(3, lambda reader: seen.append(reader.term))
    tail.take([record(0, 0, encode(OutputFence(term=5)), sink=4)])
    tail.take([record(0, 1, encode(OutputFence(term=2)), sink=3)])
    tail.take([record(0, 2, b"from nobody of ours", sink=3)])
    assert seen == [-1, 2, 2]


def test_a_declared_speed_costs_time_and_none_costs_nothing() -> None:
    assert Speed().tuples_us(10_000) == 0
    assert Speed(tuples_per_s=1_000).tuples_us(100) == 100_000
    assert Speed(tuples_per_s=1_000).copies_us(100) == 100_000, "as fast as it computes"
    assert Speed(tuples_per_s=1_000, copied_tuples_per_s=10_000).copies_us(100) == 10_000
    assert Speed(checkpoint_bytes_per_s=1e6).bytes_us(2_000_000) == 2_000_000
    with pytest.raises(UsageError, match="restart_s"):
        Speed(restart_s=(1.0, -1.0))
    assert Speed().restart_us(3) == 0
    assert Speed(restart_s=(1.0, 2.5)).restart_us(1) == 2_500_000


def test_a_link_holds_a_message_for_its_delay_and_its_size() -> None:
    links = Links(pairs_us=((0, 20_000, 5), (7, 0, 5), (5, 5, 0)), bytes_per_s=1e6)
    here = Arrivals(links, 1)
    assert here.due_us(100, 0, 500_000) == 100 + 500_000 + 20_000
    assert here.due_us(200, 0, 1_000) == 100 + 501_000 + 20_000, "the way is still full"
    assert here.due_us(200, 1, 1_000) == 200, "within a node"
    assert links.delay_us(-1, 0) == links.delay_us(0, -1) == 5
    assert not Links()


def test_links_follow_from_places_in_a_network() -> None:
    distance = {"edge": 0.0, "cloud": 0.05}
    links = Links.between(
        ["edge", "cloud", "cloud"],
        lambda one, other: abs(distance[one] - distance[other]),
        coordinator="cloud",
        store="edge",
    )
    assert links.pairs_us[0] == (0, 50_000, 50_000, 50_000)
    assert links.store_us == (0, 50_000, 50_000)


@pytest.mark.parametrize("wrong", [{"pairs_us": [[1, 2]]}, {"store_us": [1]}, {"bytes_per_s": -1}])
def test_links_that_do_not_fit_together_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="link"):
        Links(**wrong)
