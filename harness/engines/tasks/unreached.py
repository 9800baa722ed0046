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


class Unreached:
    """The pairs that were reported, each once."""

    def __init__(self) -> None:
        self._pairs: set[tuple[int, int]] = set()

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
        """Return the event of a pair that cannot talk, while both are in touch with this process.

        What was sent before a node was cut off or killed, and arrives afterwards, is no news. Nor
        is anything just after this process was itself stopped (until ``awake_us``): it reads then
        what nodes said long ago."""
        other, pair = members.get(found.to), (member.number, found.to)
        if other is None or other.boot != found.boot or pair in self._pairs:
            return None
        fresh_us = max(FRESH_US, 4 * job.scheme.heartbeat_us)
        newest = min(found.at_us + member.shift_us, other.heard_us, member.heard_us)
        if now_us - newest > fresh_us or now_us - awake_us <= fresh_us:
            return None
        self._pairs.add(pair)
        mine, theirs = job.nodes[member.number].name, job.nodes[found.to].name
        what = (
            f"{mine} at {':'.join(map(str, member.address))} cannot reach {theirs} at "
            f"{':'.join(map(str, found.at))}: {found.why}"
        )
        return {"event": "problem", "node": member.number, "what": what, "remedy": _REMEDY}
