"""What a container has used, from the daemon's answer to `stats`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Used:
    """Sums of one source of counters that can start again from zero."""

    cpu_s: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0


def read_counters(stats: Mapping[str, Any]) -> tuple[Used, int | None]:
    """What was used so far, and the memory in use now: without file pages that nobody reads; None
    where the daemon does not count it."""
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
    return used, memory["usage"] - cached if "usage" in memory else None
