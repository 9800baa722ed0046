"""Declared links under workers, made by the kernel's traffic control.

A bandwidth is kept by a token bucket (``tbf``), latency and loss by ``netem``, in each direction of
the worker's virtual cable. Most kernels have both; some lack ``netem``, which is found by trying.
Where a backend cannot shape (loopback addresses), and for latencies between one pair of nodes
rather than all of a worker's, the engine delays messages at the receiver
(`harness.engines.tasks.pacing`); results record which of the two was used."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EnvironmentFailure, UsageError

RATE, LATENCY, LOSS = "rate", "latency", "loss"
"""The kinds of link."""
_BURST_S, _LEAST_BURST_BYTES = 0.01, 32 * 1024
"""Size of a burst: the bucket is filled at the kernel's ticks, and one segment of a virtual cable
has up to 64 KiB (``tbf`` cuts longer ones)."""
_QUEUE_S = 0.4
"""Longest wait of a packet before further ones are dropped; TCP slows down then."""
_PACKETS = 10_000
"""Limit of packets in ``netem``; its default of 1,000 would limit the bandwidth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLink:
    """The link for all traffic of a worker, in both directions."""

    bytes_per_s: float | None = None
    """Bandwidth of each direction; None for no limit."""
    latency_s: float = 0.0
    """Latency one way."""
    loss: float = 0.0
    """Share of lost packets, one way. TCP sends them again, so that bytes come later and fewer at a
    time; a program loses none."""

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
        """The kinds of link that a backend must support for it."""
        wanted = {RATE: self.bytes_per_s is not None, LATENCY: self.latency_s, LOSS: self.loss}
        return frozenset(name for name, is_wanted in wanted.items() if is_wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """Bytes that crossed one worker's network since it was made."""

    received: int
    sent: int


class Loopback:
    """The network under the workers of a cluster; here addresses of the loopback device.

    They need no setting up. Networks that can cut workers off inherit from it."""

    host = "127.0.0.1"
    """The address of Kafka, Redis, the Spark master and drivers."""
    cuts = False
    """True if workers can be cut off."""
    method = (
        "Network: None, because Linux keeps no per-process byte counter that can be read without "
        "root."
    )
    """The way in which bytes are counted, or the reason why they are not."""

    def worker_host(self, rack: int, number: int) -> str:
        """Return the address of a rack's worker, so that Spark sees different hosts."""
        return f"127.0.{rack}.{number}"

    def open(self, run: str, directory: Path, workers: Mapping[str, str]) -> None:
        """Set it up for these workers, whose addresses are given by name."""

    def within(self, worker: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` in the worker's network."""
        return list(command)

    def cut(self, worker: str) -> None:
        """Take a worker off the network; its processes go on."""
        raise AssertionError("the cluster refuses this before it comes here")

    def heal(self, worker: str) -> None:
        """Put it back."""
        raise AssertionError("the cluster refuses this before it comes here")

    def shapes(self) -> frozenset[str]:
        """Return the kinds of link that can be laid."""
        return frozenset()

    def shape(self, worker: str, link: WorkerLink | None) -> None:
        """Lay a link under a worker, both ways; None takes it away."""

    def counted(self, worker: str) -> Bytes | None:
        """Return a worker's bytes; None where there is no counter."""
        return None

    def close(self) -> None:
        """Remove it, after every process has ended."""


def interface_bytes(device: str, text: str | None = None) -> Bytes | None:
    """Return what a device has received and sent; None without it. ``text``: /proc/net/dev."""
    for line in (text or Path("/proc/net/dev").read_text()).splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == device:
            fields = counts.split()
            return Bytes(received=int(fields[0]), sent=int(fields[8]))
    return None


def orders(link: WorkerLink, device: str) -> list[list[str]]:
    """Return arguments of ``tc``, one list a call, that lay ``link`` on ``device``'s output."""
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
    # The bucket is below the delay: packets that wait for their latency have passed the bottleneck.
    return [
        [*where, "root", "handle", "1:", *netem],
        [*where, "parent", "1:1", "handle", "10:", *rate],
    ]


def removal(device: str) -> list[str]:
    """Return arguments of ``tc`` that take any link off ``device``; without one, they fail."""
    return ["qdisc", "del", "dev", device, "root"]


Traffic = Callable[[Sequence[str]], str | None]
"""A call of ``tc`` with these arguments, which returns its error message or None."""


def traffic_control(prefix: Sequence[str] = (), program: str = "tc") -> Traffic:
    """Return calls of ``tc``, or of another program of iproute2, with ``prefix`` before it."""

    def call(arguments: Sequence[str]) -> str | None:
        try:
            done = subprocess.run(
                [*prefix, program, *arguments], capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            return f"there is no program {error.filename} (package iproute2)"
        return None if done.returncode == 0 else complaint(done.stderr)

    return call


def complaint(text: str) -> str:
    """Return the last line of an error output."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason was given"


def lay(link: WorkerLink | None, device: str, tc: Traffic) -> None:
    """Lay ``link`` on a device's output; None takes the present one away.

    Raises `EnvironmentFailure` with the kernel's message."""
    tc(removal(device))  # there may be none, so its message means nothing
    for arguments in orders(link, device) if link is not None else ():
        if (why := tc(arguments)) is not None:
            raise EnvironmentFailure(
                f"the link of {device} could not be laid: {why} (tc {' '.join(arguments)})",
                remedy="this kernel lacks a queueing discipline (sch_tbf, sch_netem): load its "
                "module, or let the engine hold messages back",
            )


def able(device: str, tc: Traffic) -> frozenset[str]:
    """Return the kinds of link that this kernel supports, tried on an unused ``device``."""
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
            remedy="use --network namespaces, --cluster docker or machines with `cuts: true`, on "
            "kernels with sch_tbf and sch_netem, or let the engine hold messages back at the "
            "receiver (which results say)",
        )
