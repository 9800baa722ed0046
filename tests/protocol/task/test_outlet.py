"""The output side of a copy: replays, replicas and full buffers."""

from __future__ import annotations

from types import SimpleNamespace

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.task.lifecycle import Phase
from harness.protocol.task.outlet import PUBLICATION_BYTES, Publisher
from harness.simulator.topologies import chain
from tests.protocol.machines import TaskUnderTest, messages, only


def test_a_sink_that_takes_over_publishes_with_its_fence() -> None:
    t = replicated_sink()
    t.give(told.ProgressReported, sent_below=1)
    fence = only(t.give(told.CopyPromoted, term=4), do.FenceOutput)
    assert [(one.kind, one.batch) for one in fence.records] == [
        (do.Kind.STABLE, 1), (do.Kind.STABLE, 2)
    ]  # fmt: skip
    effects = t.fence(3, 3)
    assert not any(isinstance(effect, do.PublishOutput) for effect in effects)
    assert [one.batch for one in only(t.compute(3, 2), do.PublishOutput).records] == [3]


def test_what_a_fence_brings_has_a_limit_in_bytes() -> None:
    t = replicated_sink()
    half = SimpleNamespace(nbytes=PUBLICATION_BYTES // 2)
    t.machine.outlet.outbox.outputs = dict.fromkeys(range(3), (half,))
    fence = only(t.give(told.CopyPromoted, term=4), do.FenceOutput)
    assert [one.batch for one in fence.records] == [0, 1]


def test_a_promoted_replica_sends_its_buffer_if_the_scheme_says_so() -> None:
    for sends_buffer, sent in ((False, []), (True, [2, 3])):
        t = TaskUnderTest(term=None, replicated=(1,), sends_buffer=sends_buffer)
        for number in range(4):
            assert messages(t.compute(number), told.BatchArrived) == [], "a replica is silent"
        t.give(told.ProgressReported, sent_below=2)
        effects = t.give(told.CopyPromoted, term=4)
        assert [one.batch for one in messages(effects, told.BatchArrived)] == sent
        assert len(messages(effects, told.UpstreamResumed)) == 1


def replicated_sink() -> TaskUnderTest:
    """Return a sink's replica that has processed three batches."""
    t = TaskUnderTest(3, term=None, replicated=(3,))
    for number in range(3):
        t.compute(number, 2)
    return t


def test_a_sink_that_has_to_load_again_keeps_no_output_to_itself_meanwhile() -> None:
    t = TaskUnderTest(3)
    t.fence()
    first = only(t.compute(0, 2), do.PublishOutput)
    t.compute(1, 2)
    only(t.give(told.ReplayRefused, upstream=2, oldest=5), do.LoadCheckpoint)
    assert t.machine.phase is Phase.LOADING
    effects = t.give(told.OutputPublished, sequence=first.sequence)
    assert [record.batch for record in only(effects, do.PublishOutput).records] == [1]


def test_a_sink_that_loads_again_keeps_nothing_that_is_published() -> None:
    """It took over where its partition was further than itself, and lacks input that is gone.

    The checkpoint from before it holds a window of output that will never be acknowledged."""
    t = TaskUnderTest(3, window=4)
    t.fence(6, 6)
    only(t.give(told.ReplayRefused, upstream=2, oldest=6), do.LoadCheckpoint)
    checkpoint = told.Checkpoint(
        task=3,
        position=6,
        state=(),
        outputs=tuple((batch, (f"stable-{batch}",)) for batch in range(2, 6)),
        acknowledged=(2,),
        term=1,
    )
    t.give(told.CheckpointLoaded, checkpoint=checkpoint)
    assert t.machine.position == 6
    [record] = only(t.compute(6, 2), do.PublishOutput).records
    assert record.batch == 6


def test_a_publication_has_a_limit_in_bytes() -> None:
    """What gathers while the partition is away goes out in entries that a broker takes."""
    publisher = Publisher()
    publisher.open(0, 0)
    half = PUBLICATION_BYTES // 2
    sizes = [half, half, 1, PUBLICATION_BYTES + 1, 1, *[0] * 700]
    for batch, size in enumerate(sizes):
        publisher.stable(batch, SimpleNamespace(nbytes=size))
    taken = []
    while records := publisher.take():
        assert publisher.take() == (), "one at a time"
        taken.append([record.batch for record in records])
        publisher.confirm(publisher.sequence)
    assert taken[:3] == [[0, 1], [2], [3]]
    assert [batch for batches in taken for batch in batches] == list(range(len(sizes)))
    assert publisher.confirmed == len(sizes)


def test_a_replica_of_a_later_plan_is_told_of_progress_too() -> None:
    t = TaskUnderTest(3, wiring=chain(3), replicated=())
    t.fence()
    t.compute(0, 2)
    t.confirm()
    effects = t.tick(now=t.scheme.trim_every_us)
    assert [m.sent_below for m in messages(effects, told.ProgressReported)] == [1]
