"""Schedules from a seed: one target, several in turn, exponential arrivals; sizes of bursts.

Rates are per node and hour, as failure studies print them. What makes a schedule stores its
arguments in `Schedule.parameters`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule
from harness.seeds import generator

SECONDS_PER_HOUR = 3600.0


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
    parameters = {**schedule.parameters, "targets": list(targets)}
    return replace(schedule, origin="random target", seed=seed, parameters=parameters)


def in_turn(*schedules: Schedule) -> Schedule:
    """Join several schedules, each with its own instants; the seed is that of the first."""
    return Schedule(
        events=[event for schedule in schedules for event in schedule.events],
        origin=", then ".join(schedule.origin for schedule in schedules),
        seed=schedules[0].seed,
        parameters={"parts": [dict(schedule.parameters) for schedule in schedules]},
    )


def exponential(
    nodes: Sequence[str], *, rate_per_hour: float, duration_s: float, seed: int, repair_s: float
) -> Schedule:
    """Let every node fail on its own, with exponential times between its failures.

    It is restarted after ``repair_s``. A node that is down does not fail, so every kill must find
    something alive."""
    events: list[FailureEvent] = []
    for node in nodes:
        rng = generator(seed, "arrivals", node)
        now = float(rng.exponential(SECONDS_PER_HOUR / rate_per_hour))
        while now < duration_s:
            events.append(FailureEvent(at_s=now, action=Action.KILL, target=node))
            now += repair_s
            if now < duration_s:
                events.append(FailureEvent(at_s=now, action=Action.RESTART, target=node))
            now += float(rng.exponential(SECONDS_PER_HOUR / rate_per_hour))
    return Schedule(
        events=events,
        origin="exponential",
        seed=seed,
        parameters={
            "rate_per_hour": rate_per_hour,
            "duration_s": duration_s,
            "repair_s": repair_s,
            "nodes": list(nodes),
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
