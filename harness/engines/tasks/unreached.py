"""Pairs of nodes without a way between them, as the coordinator learns of them.

Tests: ``tests/engines/tasks/test_heard.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from harness.engines.tasks.heard import Unreachable
from harness.engines.tasks.job import Job
from harness.engines.tasks.routes import Address

FRESH_US = 1_000_000
"""Age of a node's last word, or four heartbeats, until which it counts as being in touch."""
LASTING_US = 10_000_000
"""Time for which every attempt of a pair fails, and both stay in touch, until the run ends: an
attempt that began while a node was cut off may fail when it is not any more. Wrong bits on the wire
look like another secret: where they spoil every fourth attempt, some twelve in a row are needed."""
_REMEDY = (
    "let every node connect to every other, on any port above 1023: look at the firewall and the "
    "routes between these two, and at the run's certificate"
)


class Reached(Protocol):
    """A node that is connected to the coordinator."""

    number: int
    boot: int
    address: Address
    shift_us: int
    heard_us: int
    """When its last heartbeat came."""
    steady_us: int
    """Since when no heartbeat of it came late, and it took every connection."""


class Unreached:
    """The pairs that were reported, and since when."""

    def __init__(self) -> None:
        self._since_us: dict[tuple[int, int], tuple[int, int]] = {}
        """The first attempt that failed, by the node's clock, and when that was heard."""
        self._told: set[tuple[int, int]] = set()

    def problem(
        self,
        job: Job,
        found: Unreachable,
        member: Reached,
        members: Mapping[int, Reached],
        *,
        now_us: int,
        awake_us: int,
    ) -> dict[str, Any] | None:
        """Return the event of a pair that cannot talk for long, while both are in touch.

        What was sent before a node was cut off or killed, and arrives afterwards, is no news. Nor
        is anything just after this process was itself stopped (until ``awake_us``): it reads then
        what nodes said long ago."""
        other, pair = members.get(found.to), (member.number, found.to)
        if other is None or other.boot != found.boot or pair in self._told:
            return None
        fresh_us = fresh_us_of(job)
        newest = min(found.at_us + member.shift_us, other.heard_us, member.heard_us)
        if now_us - newest > fresh_us or now_us - awake_us <= fresh_us:
            return None
        steady_us = max(member.steady_us, other.steady_us, awake_us)
        first_us, since_us = self._since_us.get(pair, (-1, -1))
        if first_us != found.since_us or since_us < steady_us:  # they may have talked since then
            self._since_us[pair] = found.since_us, now_us
            return None
        if now_us - since_us < LASTING_US:
            return None
        self._told.add(pair)
        mine, theirs = job.nodes[member.number].name, job.nodes[found.to].name
        what = (
            f"{mine} at {':'.join(map(str, member.address))} cannot reach {theirs} at "
            f"{':'.join(map(str, found.at))}: {found.why}"
        )
        return {"event": "problem", "node": member.number, "what": what, "remedy": _REMEDY}


def fresh_us_of(job: Job) -> int:
    """Return the age of a node's last word until which it counts as being in touch."""
    return max(FRESH_US, 4 * job.scheme.heartbeat_us)
