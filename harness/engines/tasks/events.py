"""The observations of the task engine in a pass, as events of the contract of all engines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness.cluster.base import Node
from harness.engines.base import Event, EventKind
from harness.engines.tasks.adapting import Adaptation
from harness.engines.tasks.reading import Fenced
from harness.hosting.restoration import Noted, Restoration, Restorations, steps_of
from harness.protocol.effects import CopyEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Notes of the coordinator and the nodes, by names."""

    names: Sequence[str]
    """The names of the tasks."""
    nodes: Sequence[Node]
    notes: Sequence[Noted]
    """In the order of time."""
    ahead_us: int
    """The difference from the clock of the notes to the wall clock at the start of the pass."""

    def recoveries(self) -> Iterator[Event]:
        """Yield for each loss of a node its detection, and the return of the last of its tasks.

        The latter has the steps of that task, unless an earlier loss had begun its way back."""
        ways: dict[int, list[Restoration]] = {}
        for way in Restorations(self.notes).every():
            ways.setdefault(way.task, []).append(way)
        for lost in self._losses():
            node = self.nodes[lost[0].note.node].name
            tasks = ", ".join(self.names[noted.note.task] for noted in lost)
            detected = self._detected(node, lost[0].at_us, lost[0].note.why, tasks)
            yield detected
            back = [
                way
                for noted in lost
                for way in ways.get(noted.note.task, ())
                if _restores(way, noted)
            ]
            if len(back) == len(lost):
                last = max(back, key=lambda way: way.restored_us or 0)
                yield Event(
                    kind=EventKind.RECOVERED,
                    at_unix_s=self._unix_s(last.restored_us or 0),
                    target=node,
                    cause=", ".join(sorted({way.how for way in back})),
                    detail={**detected.detail, **self._steps(last, lost[0].at_us)},
                )

    def unharmed(self, lives: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
        """Yield the detection of each node that left and was no task's primary then.

        ``lives`` are the coordinator's reports of nodes that joined and left. A copy was lost with
        the life in which it was hosted, also where the next one showed the loss."""
        joined: dict[int, list[int]] = {}
        for event in sorted(lives, key=lambda event: event["at_us"]):
            if event["event"] == "joined":
                joined.setdefault(event["node"], []).append(event["at_us"])

        def life(node: int, at_us: int) -> tuple[int, int]:
            return node, bisect_right(joined.get(node, ()), at_us)

        hosted = {
            (noted.note.task, noted.note.incarnation): noted.at_us
            for noted in self.notes
            if noted.note.event is CopyEvent.HOSTED
        }
        harmed = {
            life(lost.note.node, hosted.get((lost.note.task, lost.note.incarnation), 0))
            for group in self._losses()
            for lost in group
        }
        for left in (event for event in lives if event["event"] == "left"):
            if life(left["node"], left["at_us"]) not in harmed:
                node = self.nodes[left["node"]].name
                yield self._detected(node, left["at_us"], f"life {left['boot']} of the node ended")

    def _detected(self, node: str, at_us: int, cause: str, tasks: str = "") -> Event:
        at_unix_s = self._unix_s(at_us)
        return Event(
            kind=EventKind.DETECTED,
            at_unix_s=at_unix_s,
            target=node,
            cause=cause,
            detail={"tasks": tasks, "detected_unix_s": at_unix_s},
        )

    def _steps(self, way: Restoration, lost_us: int) -> dict[str, float]:
        steps = steps_of(way, self.notes) if way.detected_us == lost_us else None
        if steps is None:
            return {}
        return {"there_after_s": steps.there_us / 1e6, "ready_after_s": steps.ready_us / 1e6}

    def _losses(self) -> list[list[Noted]]:
        """Return the lost copies by node and instant: the tasks of a node are lost at once."""
        groups: dict[tuple[int, int], list[Noted]] = {}
        for noted in self.notes:
            if noted.note.event is CopyEvent.LOST and noted.note.node >= 0:
                groups.setdefault((noted.note.node, noted.at_us), []).append(noted)
        return list(groups.values())

    def lives(self, events: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
        """Yield the nodes that joined and left, by the coordinator's reports."""
        for event in events:
            left = event["event"] == "left"
            yield Event(
                kind=EventKind.FAILED if left else EventKind.RESTARTED,
                at_unix_s=self._unix_s(event["at_us"]),
                target=self.nodes[event["node"]].name,
                cause=f"life {event['boot']} of the node {'ended' if left else 'began'}",
            )

    def troubles(self, events: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
        """Yield the errors of Kafka's and Redis' clients, by the coordinator's reports."""
        for event in events:
            node = event["node"]
            yield Event(
                kind=EventKind.FAILED,
                at_unix_s=self._unix_s(event["at_us"]),
                target=self.nodes[node].name if node >= 0 else "coordinator",
                cause=f"an error of a client: {event['where']}",
                detail={"error": event["what"]},
            )

    def unstored(self) -> Iterator[Event]:
        """Yield checkpoints that the store had no room for: the task goes on without them."""
        for noted in self.notes:
            if noted.note.event is CopyEvent.UNSTORED:
                yield Event(
                    kind=EventKind.FAILED,
                    at_unix_s=self._unix_s(noted.at_us),
                    target=self.names[noted.note.task],
                    cause="a checkpoint was not stored",
                    detail={"error": noted.note.why},
                )

    def fenced(self, found: Sequence[Fenced]) -> Iterator[Event]:
        """Yield the results that replaced copies still published."""
        for fenced in found:
            yield Event(
                kind=EventKind.FENCED,
                at_unix_s=fenced.at_ms / 1000,
                target=self.names[fenced.sink],
                cause=f"term {fenced.term} was over",
            )

    def adapted(
        self,
        changes: Sequence[Adaptation],
        told_us: Sequence[int] = (),
        upstream: Sequence[Sequence[int]] = (),
    ) -> Iterator[Event]:
        """Yield the changes of the plan, with the durations of each.

        They are the times until the stopped replicas were gone, and until the started ones were
        hosted, and ready. They count from the instant at which the coordinator got the change
        (``told_us``) or, without one, from the decision. `hop_s` of the whole pass is added."""
        hop_s = self.hop_s(upstream) if changes else None
        for change in changes:
            since = next((at for at in told_us if at >= change.at_us), change.at_us)
            yield Event(
                kind=EventKind.ADAPTED,
                at_unix_s=self._unix_s(change.at_us),
                cause=", ".join(f"{name} {rate:.0f}/s" for name, rate in change.rates.items()),
                detail={
                    "started": ", ".join(self.names[task] for task in change.started),
                    "retired": ", ".join(self.names[task] for task in change.retired),
                    "cost": change.cost,
                    "value_before": change.value_before,
                    "value_after": change.value_after,
                    "retired_after_s": self._took_s(CopyEvent.RETIRED, change.retired, since),
                    "hosted_after_s": self._took_s(CopyEvent.HOSTED, change.started, since),
                    "ready_after_s": self._took_s(CopyEvent.READY, change.started, since),
                    "hop_s": hop_s,
                },
            )

    def hop_s(self, upstream: Sequence[Sequence[int]]) -> float | None:
        """Return the median time from the last upstream task's end of a batch to a task's own end.

        It is over tasks and batches; None where progress is not noted."""
        done: dict[tuple[int, int], int] = {}
        for noted in self.notes:
            if noted.note.event is CopyEvent.PROGRESSED:
                done.setdefault((noted.note.task, noted.note.position), noted.at_us)
        hops = []
        for (task, position), at_us in done.items() if upstream else ():
            above = [done.get((other, position)) for other in upstream[task]]
            known = [instant for instant in above if instant is not None]
            if above and len(known) == len(above):
                hops.append(max(0, at_us - max(known)))
        return median(hops) / 1e6 if hops else None

    def _took_s(self, event: CopyEvent, tasks: Sequence[int], since_us: int) -> float | None:
        """Return the time until the replicas of all ``tasks`` noted this; None if one did not."""
        first: dict[int, int] = {}
        for noted in self.notes:
            note = noted.note
            if note.event is event and note.term is None and noted.at_us > since_us:
                first.setdefault(note.task, noted.at_us)
        if not tasks or not first.keys() >= set(tasks):
            return None
        return (max(first[task] for task in tasks) - since_us) / 1e6

    def _unix_s(self, at_us: int) -> float:
        return (at_us + self.ahead_us) / 1e6


def _restores(way: Restoration, lost: Noted) -> bool:
    """Return True if the lost task came back on this way of its, which may have begun earlier."""
    return (
        way.restored_us is not None
        and way.term >= (lost.note.term or 0)
        and way.detected_us <= lost.at_us
    )
