"""What the task engine tells of lost nodes: the return of every loss, and losses of nothing."""

from __future__ import annotations

from typing import Any

from harness.cluster.base import Node
from harness.engines.base import Event, EventKind
from harness.engines.tasks.events import Observations
from harness.hosting.restoration import Noted
from harness.protocol.effects import CopyEvent, NoteCopy

NODES = [
    Node(name=f"r{rack}n1", rack=f"r{rack}", worker=f"r{rack}w1", host=f"127.0.{rack}.1")
    for rack in (1, 2, 3)
]


def noted(at_ms: int, event: CopyEvent, term: int, position: int = 7, node: int = 0) -> Noted:
    """Return a note about task 0, by the coordinator where it is lost."""
    lost = event is CopyEvent.LOST
    note = NoteCopy(
        cause="test", event=event, task=0, incarnation=term, term=term, position=position,
        at=at_ms * 1000, why="checkpoint", node=node if lost else -1,
    )  # fmt: skip
    return Noted(at_us=at_ms * 1000, node=-1 if lost else node, note=note)


def told(*notes: Noted) -> Observations:
    return Observations(names=["a"], nodes=NODES, notes=notes, ahead_us=0)


def life(event: str, at_ms: int, node: int) -> dict[str, Any]:
    return {"event": event, "node": node, "boot": 1, "at_us": at_ms * 1000}


def times(events: list[Event], kind: EventKind) -> list[tuple[str | None, float, float]]:
    return [
        (event.target, event.at_unix_s, event.detail["detected_unix_s"])
        for event in events
        if event.kind is kind
    ]


def test_a_task_that_is_lost_again_on_its_way_brings_both_losses_back() -> None:
    """The first loss is over when the task is where it was before it, wherever that is."""
    events = list(
        told(
            noted(10, CopyEvent.PROGRESSED, 1, node=0),
            noted(100, CopyEvent.LOST, 1, node=0),
            noted(150, CopyEvent.READY, 2, position=3, node=1),
            noted(200, CopyEvent.LOST, 2, node=1),
            noted(250, CopyEvent.READY, 3, position=3, node=2),
            noted(300, CopyEvent.PROGRESSED, 3, position=7, node=2),
            noted(900, CopyEvent.LOST, 3, node=2),
        ).recoveries()
    )
    assert times(events, EventKind.DETECTED) == [
        ("r1n1", 0.1, 0.1), ("r2n1", 0.2, 0.2), ("r3n1", 0.9, 0.9),
    ]  # fmt: skip
    assert times(events, EventKind.RECOVERED) == [("r1n1", 0.3, 0.1), ("r2n1", 0.3, 0.2)]


def test_a_node_that_was_no_tasks_primary_is_noticed_and_has_lost_nothing() -> None:
    lives = [
        life("left", 101, 0), life("joined", 400, 0), life("left", 500, 1), life("left", 600, 0),
    ]  # fmt: skip
    noticed = told(noted(100, CopyEvent.LOST, 1, node=0), noted(550, CopyEvent.LOST, 2, node=1))
    found = list(noticed.unharmed(lives))
    assert times(found, EventKind.DETECTED) == [("r1n1", 0.6, 0.6)]
    assert [event.detail["tasks"] for event in found] == [""]


def test_a_loss_that_the_nodes_next_life_shows_is_that_of_the_life_before() -> None:
    """Where only missing heartbeats count, the process that is back is seen before the silence."""
    lives = [life("left", 100, 0), life("joined", 300, 0), life("left", 600, 0)]
    noticed = told(
        noted(50, CopyEvent.HOSTED, 1, node=0),
        noted(320, CopyEvent.LOST, 1, node=0),
        noted(330, CopyEvent.HOSTED, 2, node=1),
    )
    assert times(list(noticed.unharmed(lives)), EventKind.DETECTED) == [("r1n1", 0.6, 0.6)]
