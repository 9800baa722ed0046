"""Schedules drawn from a seed: single nodes, whole racks, exponential arrivals, a mix.

Rates are per node (or rack) and hour, as failure studies print them. Every generator stores what
it was called with in `Schedule.parameters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule
from harness.seeds import generator

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """How long a victim stays down before it is restarted."""

    kind: str = "fixed"
    """"fixed", "exponential" or "lognormal"."""
    mean_s: float = 10.0
    """The delay itself when fixed, else its mean."""
    sigma: float = 1.4
    """Spread of the logarithm when lognormal; 1.4 is what the Los Alamos repairs have."""

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "exponential", "lognormal"):
            raise UsageError(
                f"{self.kind!r} is no kind of repair",
                remedy="use fixed, exponential or lognormal",
            )
        if self.mean_s <= 0 or self.sigma <= 0:
            raise UsageError(
                f"a repair takes {self.mean_s} s with sigma {self.sigma}",
                remedy="give a mean and a sigma above zero",
            )

    def draw_s(self, rng: np.random.Generator) -> float:
        """One delay in seconds."""
        if self.kind == "exponential":
            return float(rng.exponential(self.mean_s))
        if self.kind == "lognormal":
            mu = np.log(self.mean_s) - self.sigma**2 / 2
            return float(rng.lognormal(mu, self.sigma))
        return self.mean_s

    def describe(self) -> dict[str, object]:
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


def exponential(
    nodes: Sequence[str],
    *,
    rate_per_hour: float,
    duration_s: float,
    seed: int,
    repair: Repair | None = None,
) -> Schedule:
    """Every node fails on its own, with exponential times between its failures.

    A node that is down does not fail; without ``repair`` it stays down.
    """
    events = _arrivals(nodes, rate_per_hour, duration_s, seed, repair)
    return Schedule(
        events=events,
        origin="exponential",
        seed=seed,
        parameters=_parameters(rate_per_hour, duration_s, repair, nodes=list(nodes)),
    )


def mixed(
    nodes: Sequence[str],
    racks: Sequence[str],
    *,
    node_rate_per_hour: float,
    rack_rate_per_hour: float,
    duration_s: float,
    seed: int,
    repair: Repair | None = None,
) -> Schedule:
    """Independent failures of nodes, and beside them failures of whole racks at once."""
    events = [
        *_arrivals(nodes, node_rate_per_hour, duration_s, seed, repair),
        *_arrivals(racks, rack_rate_per_hour, duration_s, seed, repair),
    ]
    return Schedule(
        events=events,
        origin="mixed",
        seed=seed,
        parameters={
            **_parameters(node_rate_per_hour, duration_s, repair, nodes=list(nodes)),
            "rack_rate_per_hour": rack_rate_per_hour,
            "racks": list(racks),
        },
    )


def _arrivals(
    targets: Sequence[str],
    rate_per_hour: float,
    duration_s: float,
    seed: int,
    repair: Repair | None,
) -> list[FailureEvent]:
    if rate_per_hour < 0 or duration_s <= 0:
        raise UsageError(
            f"failures at {rate_per_hour} per hour over {duration_s} s",
            remedy="give a rate of 0 or more and a duration above 0",
        )
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


def _parameters(
    rate_per_hour: float, duration_s: float, repair: Repair | None, **more: object
) -> dict[str, object]:
    return {
        "rate_per_hour": rate_per_hour,
        "duration_s": duration_s,
        "repair": repair.describe() if repair else None,
        **more,
    }
