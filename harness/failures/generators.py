"""Generators of schedules from a seed: nodes, racks, exponential arrivals, a mix, bursts.

A schedule never kills a target that is down already, so every kill must find something alive. Rates
are per node (or rack) and hour, as failure studies print them. Every generator stores its arguments
in `Schedule.parameters`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule
from harness.seeds import generator

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The time for which a victim stays down before it is restarted."""

    kind: str = "fixed"
    """"fixed", "exponential" or "lognormal"."""
    mean_s: float = 10.0
    """The fixed delay, or its mean."""
    sigma: float = 1.4
    """Spread of the logarithm when lognormal; 1.4 is what the Los Alamos repairs have."""

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "exponential", "lognormal"):
            raise UsageError(
                f"{self.kind!r} is no kind of repair", remedy="use fixed, exponential or lognormal"
            )
        if self.mean_s <= 0 or self.sigma <= 0:
            raise UsageError(
                f"a repair takes {self.mean_s} s with sigma {self.sigma}",
                remedy="give a mean and a sigma above zero",
            )

    def draw_s(self, rng: np.random.Generator) -> float:
        """Draw one delay in seconds."""
        if self.kind == "exponential":
            return float(rng.exponential(self.mean_s))
        if self.kind == "lognormal":
            mu = np.log(self.mean_s) - self.sigma**2 / 2
            return float(rng.lognormal(mu, self.sigma))
        return self.mean_s

    def describe(self) -> dict[str, object]:
        """Return the form for `Schedule.parameters`."""
        return {"kind": self.kind, "mean_s": self.mean_s, "sigma": self.sigma}


def one_target(target: str, *, at_s: float, restart_after_s: float | None = None) -> Schedule:
    """Kill one node, or one rack at once, and restart it some time later (or never)."""
    events = [FailureEvent(at_s=at_s, action=Action.KILL, target=target)]
    if restart_after_s is not None:
        events.append(
            FailureEvent(at_s=at_s + restart_after_s, action=Action.RESTART, target=target)
        )
    return Schedule(
        events=events,
        origin="one target",
        parameters={"target": target, "at_s": at_s, "restart_after_s": restart_after_s},
    )


def random_target(
    targets: Sequence[str], *, at_s: float, seed: int, restart_after_s: float | None = None
) -> Schedule:
    """Kill one of ``targets``, chosen by the seed."""
    rng = generator(seed, "random target")
    chosen = targets[int(rng.integers(len(targets)))]
    schedule = one_target(chosen, at_s=at_s, restart_after_s=restart_after_s)
    return Schedule(
        events=schedule.events,
        origin="random target",
        seed=seed,
        parameters={**schedule.parameters, "targets": list(targets)},
    )


def in_turn(*schedules: Schedule) -> Schedule:
    """Join several schedules, each with its own instants; the seed is that of the first."""
    return Schedule(
        events=[event for schedule in schedules for event in schedule.events],
        origin=", then ".join(schedule.origin for schedule in schedules),
        seed=schedules[0].seed,
        parameters={"parts": [dict(schedule.parameters) for schedule in schedules]},
    )


def exponential(
    nodes: Sequence[str],
    *,
    rate_per_hour: float,
    duration_s: float,
    seed: int,
    repair: Repair | None = None,
) -> Schedule:
    """Let every node fail on its own, with exponential times between its failures.

    A node that is down does not fail; without ``repair`` it stays down."""
    events = _arrivals(nodes, rate_per_hour, duration_s, seed, repair)
    return Schedule(
        events=events,
        origin="exponential",
        seed=seed,
        parameters=_parameters(rate_per_hour, duration_s, repair, nodes=list(nodes)),
    )


def mixed(
    racks: Mapping[str, Sequence[str]],
    *,
    node_rate_per_hour: float,
    rack_rate_per_hour: float,
    duration_s: float,
    seed: int,
    repair: Repair | None = None,
) -> Schedule:
    """Draw independent failures of nodes, together with failures of whole racks.

    ``racks`` has the nodes of each rack. A rack that fails takes down its living nodes, and all of
    its nodes come back together."""
    members = {**racks, **{node: [node] for nodes in racks.values() for node in nodes}}
    rates = dict.fromkeys(members, node_rate_per_hour) | dict.fromkeys(racks, rack_rate_per_hour)
    arrivals = [
        (at_s, target)
        for target, rate in rates.items()
        for at_s in _poisson_s(target, rate, duration_s, seed)
    ]
    outages = _Outages(members, repair, generator(seed, "repairs"))
    for at_s, target in sorted(arrivals):
        outages.kill(target, at_s)
    return Schedule(
        events=outages.events(duration_s),
        origin="mixed",
        seed=seed,
        parameters={
            **_parameters(node_rate_per_hour, duration_s, repair),
            "rack_rate_per_hour": rack_rate_per_hour,
            "racks": {rack: list(nodes) for rack, nodes in racks.items()},
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstSizes:
    """The number of nodes that fail together: P(i) = (1 - a) c(r1) r1^i + a c(r2) r2^i, i = 1 .. n.

    The bi-exponential model of Nath et al. (NSDI 2006); the values are refitted to their trace of
    web servers."""

    large_share: float = 0.0083
    """a, the share of the bursts from the heavy part."""
    small_ratio: float = 0.489
    large_ratio: float = 0.920

    def __post_init__(self) -> None:
        ratios = (self.small_ratio, self.large_ratio)
        if not 0 <= self.large_share <= 1 or not all(0 < ratio < 1 for ratio in ratios):
            raise UsageError(
                f"burst sizes with the share {self.large_share} and the ratios {ratios}",
                remedy="give a share from 0 to 1 and ratios between 0 and 1",
            )

    def probabilities(self, nodes: int) -> NDArray[np.float64]:
        """Return those of the sizes 1 .. ``nodes``; shape ``(nodes,)``, they add up to 1."""
        powers = np.array([[self.small_ratio], [self.large_ratio]]) ** np.arange(1, nodes + 1)
        parts = powers / powers.sum(axis=1, keepdims=True)
        return np.asarray((1 - self.large_share) * parts[0] + self.large_share * parts[1])


def bursts(
    nodes: Sequence[str],
    *,
    bursts_per_hour: float,
    duration_s: float,
    seed: int,
    sizes: BurstSizes | None = None,
    repair: Repair | None = None,
) -> Schedule:
    """Draw exponential arrivals of bursts, each of several nodes of the cluster at one instant.

    A burst takes living nodes, each with the same probability, and all of them if fewer are left
    than its size."""
    sizes = sizes or BurstSizes()
    rng = generator(seed, "bursts")
    probabilities = sizes.probabilities(len(nodes))
    outages = _Outages({node: [node] for node in nodes}, repair, rng)
    for at_s in _poisson_s("cluster", bursts_per_hour, duration_s, seed):
        alive = [node for node in nodes if outages.alive(node, at_s)]
        size = min(1 + int(rng.choice(len(nodes), p=probabilities)), len(alive))
        for index in rng.choice(len(alive), size, replace=False) if alive else ():
            outages.kill(alive[index], at_s)
    return Schedule(
        events=outages.events(duration_s),
        origin="bursts",
        seed=seed,
        parameters={
            "bursts_per_hour": bursts_per_hour,
            "sizes": asdict(sizes),
            "duration_s": duration_s,
            "repair": repair.describe() if repair else None,
            "nodes": list(nodes),
        },
    )


class _Outages:
    """The nodes that are down, with their return.

    Exponential arrivals have no memory: without those that find nothing alive, each node still has
    the right times between failures."""

    def __init__(
        self, members: Mapping[str, Sequence[str]], repair: Repair | None, rng: np.random.Generator
    ) -> None:
        self._members = members
        self._repair = repair
        self._rng = rng
        self._back_s: dict[str, float] = {}
        self._restarts: dict[str, float] = {}
        self._events: list[FailureEvent] = []

    def alive(self, target: str, at_s: float) -> bool:
        """Return True if any node of a target is alive."""
        return any(self._back_s.get(node, 0.0) <= at_s for node in self._members[target])

    def kill(self, target: str, at_s: float) -> None:
        """Kill the living nodes of a target, if any, and plan the restart of all of it."""
        if not self.alive(target, at_s):
            return
        self._flush(at_s)
        self._events.append(FailureEvent(at_s=at_s, action=Action.KILL, target=target))
        back_s = at_s + self._repair.draw_s(self._rng) if self._repair else inf
        for node in self._members[target]:
            self._restarts.pop(node, None)  # it comes back with the others
            self._back_s[node] = back_s
        self._restarts[target] = back_s

    def events(self, duration_s: float) -> list[FailureEvent]:
        """Return kills and restarts before ``duration_s``."""
        self._flush(np.nextafter(duration_s, 0))
        return list(self._events)

    def _flush(self, until_s: float) -> None:
        due = [target for target, at_s in self._restarts.items() if at_s <= until_s]
        for target in due:
            at_s = self._restarts.pop(target)
            self._events.append(FailureEvent(at_s=at_s, action=Action.RESTART, target=target))


def _arrivals(
    targets: Sequence[str],
    rate_per_hour: float,
    duration_s: float,
    seed: int,
    repair: Repair | None,
) -> list[FailureEvent]:
    _check(rate_per_hour, duration_s)
    events: list[FailureEvent] = []
    for target in targets if rate_per_hour else ():
        rng = generator(seed, "arrivals", target)
        now = float(rng.exponential(SECONDS_PER_HOUR / rate_per_hour))
        while now < duration_s:
            events.append(FailureEvent(at_s=now, action=Action.KILL, target=target))
            if repair is None:
                break
            now += repair.draw_s(rng)
            if now < duration_s:
                events.append(FailureEvent(at_s=now, action=Action.RESTART, target=target))
            now += float(rng.exponential(SECONDS_PER_HOUR / rate_per_hour))
    return events


def _poisson_s(name: str, rate_per_hour: float, duration_s: float, seed: int) -> list[float]:
    """Draw arrivals that wait for nothing, in order."""
    _check(rate_per_hour, duration_s)
    rng = generator(seed, "arrivals", name)
    count = int(rng.poisson(rate_per_hour * duration_s / SECONDS_PER_HOUR))
    return [float(at_s) for at_s in np.sort(rng.uniform(0, duration_s, count))]


def _check(rate_per_hour: float, duration_s: float) -> None:
    if rate_per_hour < 0 or duration_s <= 0:
        raise UsageError(
            f"failures at {rate_per_hour} per hour over {duration_s} s",
            remedy="give a rate of 0 or more and a duration above 0",
        )


def _parameters(
    rate_per_hour: float, duration_s: float, repair: Repair | None, **more: object
) -> dict[str, object]:
    return {
        "rate_per_hour": rate_per_hour,
        "duration_s": duration_s,
        "repair": repair.describe() if repair else None,
        **more,
    }
