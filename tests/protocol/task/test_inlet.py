"""The input side of a copy: windows, duplicates and repeated requests."""

from __future__ import annotations

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.task.inlet import READ_AHEAD
from tests.protocol.machines import (
    CAUSE,
    join_of_two,
    only,
    read,
    set_window,
    source,
)


def test_a_source_reads_a_window_at_a_time_and_no_further_while_it_is_full() -> None:
    t = source(1)
    started = only(t.started, do.ReadSource)
    assert (started.from_batch, started.below) == (0, READ_AHEAD)
    set_window(t, 4)
    t.machine.inlet.read_below = 4
    assert [e for batch in (0,) for e in read(t, batch) if isinstance(e, do.ReadOn)] == []
    assert only(read(t, 1), do.ReadOn).below == 6
    read(t, 2)
    read(t, 3)
    item = told.SourceRead(cause=CAUSE, task=0, incarnation=1, batch=4, payload="in")
    assert t.tell(item) == []
    assert t.machine.inlet.read_below == 6 + 2
    t.give(told.BatchesAcknowledged, downstream=1, below=1)
    assert t.machine.computation.busy


def test_a_source_that_goes_back_reads_no_more_than_a_window() -> None:
    t = source(1)
    for batch in range(6):
        read(t, batch)
    set_window(t, 4)
    t.give(told.BatchesAcknowledged, downstream=1, below=6)
    asked = t.asked(1, acknowledged=1)
    again = only(asked, do.ReadSource)
    assert (again.from_batch, again.below) == (1, 5)


def test_a_tentative_batch_of_an_older_primary_is_dropped() -> None:
    t = join_of_two()
    t.give(told.UpstreamResumed, upstream=1, term=5)
    t.batch(0, 0)
    assert t.batch(0, 1, stable=False, term=3) == []
    assert only(t.batch(0, 1, stable=False, term=5), do.ProcessBatch).run is told.Run.TENTATIVE
