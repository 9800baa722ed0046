"""What a container has used, by the daemon's counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.cluster.docker.containers import Containers


@dataclass(slots=True)
class Used:
    """Sums of one source of counters that can start again from zero."""

    cpu_s: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the daemon's counters say of one container."""

    used: Used
    """Since it was started, and connected to the network."""
    resident_bytes: int | None
    """In use now, without file pages that nobody reads; None where the daemon does not count it."""


def counted(containers: Containers, role: str) -> Counted:
    """Of the present container of that role; nothing where none runs."""
    from docker.errors import APIError, NotFound

    try:
        container = containers.of(role)
        if container.status in ("running", "paused"):
            return read_counters(
                container.client.api.stats(container.id, stream=False, one_shot=True)
            )
    except (APIError, NotFound):  # it has just ended
        pass
    return Counted(used=Used(), resident_bytes=0)


def read_counters(stats: Mapping[str, Any]) -> Counted:
    """From the daemon's answer to `stats`."""
    cpu_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0)
    memory = stats.get("memory_stats", {})
    detail = memory.get("stats", {})
    cached = detail.get("inactive_file", detail.get("total_inactive_file", 0))
    networks = (stats.get("networks") or {}).values()
    used = Used(
        cpu_s=cpu_ns / 1e9,
        received_bytes=sum(each["rx_bytes"] for each in networks),
        sent_bytes=sum(each["tx_bytes"] for each in networks),
    )
    resident = memory["usage"] - cached if "usage" in memory else None
    return Counted(used=used, resident_bytes=resident)
