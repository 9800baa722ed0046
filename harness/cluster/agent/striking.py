"""Signals to the processes of nodes and servers, which agents hold ahead of their instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from harness.cluster.agent.agent import Struck
from harness.cluster.agent.finding import Part, Processes
from harness.cluster.agent.place import Place
from harness.cluster.base import Action, Prepared, Victim
from harness.cluster.killing import SIGNALS

_LEAD_S = 0.5
"""How long before its instant an action is on its way to an agent of another machine."""


def strike(
    action: Action,
    groups: Sequence[tuple[Place, Sequence[Part]]],
    *,
    whole: bool = False,
    before: Callable[[], None] = lambda: None,
    after: Callable[[Mapping[str, Processes]], None] = lambda reached: None,
) -> Prepared:
    """Let agents find processes, given by machine, and hold them for the signal of an action.

    ``before`` is called before it can be on its way, ``after`` with what it has reached."""
    number = SIGNALS[action]
    armed = [(place, place.agent.arm(parts, whole=whole)) for place, parts in groups]
    pool = ThreadPoolExecutor(max(1, len(armed)), thread_name_prefix="agents")
    under_way: list[Future[Struck]] = []

    def at(due_unix_s: float | None) -> None:
        """Let every agent strike at the instant, by its own clock."""
        before()
        for place, held in armed:
            due = None if due_unix_s is None else place.there_unix_s(due_unix_s)
            under_way.append(pool.submit(place.agent.strike, held, number, due))

    def apply() -> list[Victim]:
        if len(armed) == 1 and not under_way:
            place, held = armed[0]
            before()
            struck = [(place, place.agent.strike(held, number))]
        else:
            if not under_way:
                at(None)
            results = [future.result() for future in under_way]
            struck = [(place, result) for (place, _), result in zip(armed, results, strict=True)]
        after({node: group for _, one in struck for node, group in one.groups.items()})
        return [
            _victim(node, found, place, one)
            for place, one in struck
            for node, found in one.groups.items()
        ]

    def close() -> None:
        pool.shutdown(wait=False)
        for place, held in armed:
            if place.lost is None:
                place.agent.drop(held)

    far = any(place.mirror is not None for place, _ in armed)
    return Prepared(apply, close, at=at if far else None, lead_s=_LEAD_S if far else 0.0)


def _victim(node: str, found: Processes, place: Place, struck: Struck) -> Victim:
    return Victim(
        node=node,
        reached=bool(found.processes),
        executors=found.engines,
        processes=tuple(sorted(stat.pid for stat in found.processes)),
        at_unix_s=place.here_unix_s(struck.at_unix_s),
        began_unix_s=place.here_unix_s(struck.began_unix_s),
    )
