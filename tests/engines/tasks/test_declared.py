"""A declared speed and declared links, live: what happened happened no sooner than they allow.

All bounds are lower ones, by the machine's monotonic clock, so that a busy machine breaks none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.pacing import Links
from harness.protocol.effects import CopyEvent
from tests.engines.tasks.live import NODES, WORDS, OnceRestorable, kill, trial

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long]

PLACEMENT = (0, 1, 2, 3, 0, 1, 2)
"""Task to node: split, lower and count twice, then collect."""
EDGE_US, STORE_US = 120_000, 30_000
"""Between the racks, and between any node and the store."""


def between_racks(one: str, other: str) -> float:
    if "store" in (one, other):
        return STORE_US / 1e6
    return 0.0 if one[:2] == other[:2] else EDGE_US / 1e6


def processed(engine: TaskEngine) -> dict[tuple[int, int], int]:
    """Return, by (task, batch), the first time at which a primary had processed it, in µs."""
    found: dict[tuple[int, int], int] = {}
    for noted in engine.notes():
        if noted.note.event is CopyEvent.PROGRESSED:
            found.setdefault((noted.note.task, noted.note.position - 1), noted.at_us)
    return found


def test_a_link_delays_whatever_crosses_it(engine: TaskEngine, tmp_path: Path) -> None:
    links = Links.between(
        NODES, between_racks, coordinator="r1", store="store", bytes_per_s=1_000_000
    )
    one = trial(engine, tmp_path, "checkpoint", of=OnceRestorable, links=links, placement=PLACEMENT)
    done = one.run([kill(4, "r1n1")])
    assert (done.kills, done.failures) == (1, 0), done
    at_us, checked = processed(engine), 0
    died_us = min(lost.at_us for lost in engine.lost_primaries())
    assert engine.job is not None
    for task, upstream in enumerate(engine.job.wiring.upstream):
        for batch in range(5, 30):
            if at_us[task, batch] >= died_us:
                continue  # on a machine that is too busy: it may be somewhere else by now
            for above in upstream:
                way_us = links.delay_us(PLACEMENT[above], PLACEMENT[task])
                assert at_us[task, batch] >= at_us[above, batch] + way_us
                checked += way_us == EDGE_US
    assert checked
    noted = [found for found in engine.notes() if found.node >= 0]
    loaded = 0
    for lost in engine.lost_primaries():
        hosted, *_ = [
            found
            for found in noted
            if found.note.event is CopyEvent.HOSTED
            and found.note.task == lost.note.task
            and found.at_us > lost.at_us
        ]
        here_us = links.delay_us(-1, hosted.node)
        assert hosted.at_us >= lost.at_us + here_us, "an order takes its way, too"
        ready = [
            found
            for found in noted
            if found.note.event is CopyEvent.READY
            and (found.note.task, found.note.incarnation)
            == (hosted.note.task, hosted.note.incarnation)
        ]
        if ready and ready[0].note.why == "checkpoint":
            loaded += 1
            assert ready[0].at_us >= hosted.at_us + 2 * STORE_US, "and so does a checkpoint"
    assert loaded


def test_a_declared_speed_holds_results_back(engine: TaskEngine, tmp_path: Path) -> None:
    """Both `lower` tasks on one node that takes 700 words a second: it falls behind the load."""
    speed = 700
    one = trial(engine, tmp_path, "active", tuples_per_s=speed, placement=(0, 1, 3, 3, 0, 1, 2))
    done = one.run()
    assert done.failures == 0, done
    words = one.truth["count"].sum() / (WORDS.window_s / WORDS.slide_s)
    assert words / speed > 6, "more than the load's seconds, or this shows nothing"
    at_us = processed(engine)
    lower = [at for (task, _), at in at_us.items() if task in (2, 3)]
    assert max(lower) - min(lower) >= 0.95 * words / speed * 1e6
