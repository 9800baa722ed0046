"""A declared link under a worker: what the kernel's traffic control makes of its network.

A bandwidth is kept by a token bucket (``tbf``), latency and loss by ``netem``, in each direction of
the worker's virtual cable. Most kernels have both; some lack ``netem``, which is found out by
trying. Where a backend cannot shape (loopback addresses), and for latencies between one pair of
nodes rather than all of a worker's, the engine holds messages back at the receiver
(`harness.engines.tasks.pacing`), and results say which of the two it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import EnvironmentFailure, UsageError

RATE, LATENCY, LOSS = "rate", "latency", "loss"
"""What a backend may be able to do."""
_BURST_S, _LEAST_BURST_BYTES = 0.01, 32 * 1024
"""How much may pass at once: the bucket is filled at the kernel's ticks, and one segment of a
virtual cable has up to 64 KiB (``tbf`` cuts longer ones)."""
_QUEUE_S = 0.4
"""How long a packet may wait before further ones are dropped; TCP slows down then."""
_PACKETS = 10_000
"""That ``netem`` may hold back at a time; its default of 1,000 would be a bandwidth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLink:
    """What everything that a worker sends passes, and everything that it receives."""

    bytes_per_s: float | None = None
    """Of each direction; None: as fast as it is."""
    latency_s: float = 0.0
    """One way."""
    loss: float = 0.0
    """Share of packets, one way. TCP sends them again, so that bytes come later and fewer at a
    time; none is lost to a program."""

    def __post_init__(self) -> None:
        if self.bytes_per_s is not None and self.bytes_per_s < 1_000:
            raise UsageError(
                f"a link of {self.bytes_per_s:g} bytes/s carries no heartbeat",
                remedy="give at least 1,000 bytes/s, or cut the node off",
            )
        if self.latency_s < 0:
            raise UsageError(
                f"a link with a latency of {self.latency_s:g} s", remedy="give 0 or more"
            )
        if not 0 <= self.loss < 1:
            raise UsageError(
                f"a link that loses {self.loss:g} of its packets",
                remedy="give a share of at least 0 and below 1, or cut the node off",
            )

    @property
    def needs(self) -> frozenset[str]:
        """What a backend must be able to do for it."""
        wanted = {RATE: self.bytes_per_s is not None, LATENCY: self.latency_s, LOSS: self.loss}
        return frozenset(name for name, is_wanted in wanted.items() if is_wanted)


def orders(link: WorkerLink, device: str) -> list[list[str]]:
    """Arguments of ``tc``, one list a call, that lay ``link`` over what leaves ``device``."""
    where = ["qdisc", "replace", "dev", device]
    delay = ["delay", f"{round(link.latency_s * 1e6)}us"] if link.latency_s else []
    loss = ["loss", f"{link.loss * 100:g}%"] if link.loss else []
    netem = ["netem", *delay, *loss, "limit", str(_PACKETS)] if delay or loss else []
    if link.bytes_per_s is None:
        return [[*where, "root", *netem]] if netem else []
    burst = max(_LEAST_BURST_BYTES, round(link.bytes_per_s * _BURST_S))
    rate = [
        "tbf", "rate", f"{round(link.bytes_per_s * 8)}bit", "burst", str(burst),
        "latency", f"{round(_QUEUE_S * 1e3)}ms",
    ]  # fmt: skip
    if not netem:
        return [[*where, "root", *rate]]
    # The bucket below the delay: what waits for its latency has passed the bottleneck.
    return [
        [*where, "root", "handle", "1:", *netem],
        [*where, "parent", "1:1", "handle", "10:", *rate],
    ]


def removal(device: str) -> list[str]:
    """Arguments of ``tc`` that take any link off ``device``; fails where there is none."""
    return ["qdisc", "del", "dev", device, "root"]


Traffic = Callable[[Sequence[str]], str | None]
"""Calls ``tc`` with these arguments; returns what it complained of, None if nothing."""


def lay(link: WorkerLink | None, device: str, tc: Traffic) -> None:
    """Make ``link`` what ``device`` sends through; None: nothing but the device.

    Raises `EnvironmentFailure` with the kernel's complaint.
    """
    tc(removal(device))  # there may be none, so its complaint says nothing
    for arguments in orders(link, device) if link is not None else ():
        if (complaint := tc(arguments)) is not None:
            raise EnvironmentFailure(
                f"the link of {device} could not be laid: {complaint} (tc {' '.join(arguments)})",
                remedy="this kernel lacks a queueing discipline (sch_tbf, sch_netem): load its "
                "module, or let the engine hold messages back",
            )


def able(device: str, tc: Traffic) -> frozenset[str]:
    """What this kernel can do, tried on a ``device`` that nothing uses."""
    trials = {
        RATE: WorkerLink(bytes_per_s=1e9),
        LATENCY: WorkerLink(latency_s=0.001),
        LOSS: WorkerLink(loss=0.01),
    }
    found = {
        name
        for name, link in trials.items()
        if all(tc(arguments) is None for arguments in orders(link, device))
    }
    tc(removal(device))
    return frozenset(found)


def demand(link: WorkerLink, abilities: frozenset[str], backend: str) -> None:
    """Raise `UsageError` for a link that a backend cannot lay."""
    if missing := sorted(link.needs - abilities):
        raise UsageError(
            f"a {backend} cluster cannot give a worker's link a {' and a '.join(missing)} here",
            remedy="use --network namespaces or --cluster docker on a kernel with sch_tbf and "
            "sch_netem, or let the engine hold messages back at the receiver (which results say)",
        )
