"""The two models of failure of `experiments.live.matrix`, on the nodes of `_matrix_network`.

Exponential: each node that hosts a task fails at exponential times of its own. Correlated: each
rack does, with all of its nodes at one instant, and one rack stays away for longer once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.live._matrix_network import SPEC
from harness.cluster.base import TOGETHER, Action
from harness.experiment import Context
from harness.failures.generators import exponential
from harness.failures.schedule import FailureEvent, Schedule

EXPONENTIAL, CORRELATED = "exponential", "correlated"
FAILURES = (EXPONENTIAL, CORRELATED)
BEGIN_S = 2.0
"""Time at the start of a load without failures."""
CALM_S = 2.0
"""Time on time that ends a recovery: as long as the slide of the longest windows, or longer."""
BATCH_S = 0.5
START_S = 1.5
"""Longest time from the end of a node's absence until it computes again; it fails no sooner."""
ATTEMPTS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of a profile's passes."""

    load_s: float
    failures: tuple[int, int]
    """Least and most failures of a pass: of nodes, or of racks."""
    away_s: float
    """Time for which a node stays away, several batches."""
    rack_away_s: float
    """The same for the nodes of one rack, under correlated failures."""


def absences(model: str, scale: Scale, context: Context, workload: str) -> Sequence[float]:
    """Return the shortest absence of each node in seconds."""
    slow = slow_rack(context, workload) if model == CORRELATED else None
    return tuple(
        scale.rack_away_s if _rack(name) == slow else scale.away_s for name in SPEC.node_names
    )


def slow_rack(context: Context, workload: str) -> str:
    """Return the rack that stays away longer: one of those with sources, drawn by the seed."""
    return SPEC.rack_names[context.seed("rack", workload) % (SPEC.racks - 1)]


def schedule(
    model: str, scale: Scale, context: Context, workload: str, hosts: Sequence[int]
) -> Schedule:
    """Return the failures, which are the same under every scheme of a workload.

    ``hosts`` are the nodes with primaries. Schedules are drawn until one has as many failures as
    the scale asks for, and under correlated ones exactly one of the slow rack, which is back before
    the end."""
    racks = {rack: [n for n in SPEC.node_names if _rack(n) == rack] for rack in SPEC.rack_names}
    targets = [SPEC.node_names[node] for node in hosts] if model == EXPONENTIAL else list(racks)
    slow = slow_rack(context, workload) if model == CORRELATED else None
    found = drawn(
        targets,
        scale.failures,
        begin_s=BEGIN_S,
        end_s=scale.load_s - scale.away_s - CALM_S,
        repair_s=scale.away_s + START_S,
        seed=lambda attempt: context.seed("failures", model, workload, attempt),
        fits=lambda kills: slow is None or _back_in_time(kills, scale, slow),
    )
    return _whole(found, racks)


def drawn(
    targets: Sequence[str], failures: tuple[int, int], *, begin_s: float, end_s: float,
    repair_s: float, seed: Callable[[int], int], fits: Callable[[Sequence[FailureEvent]], bool],
) -> Schedule:  # fmt: skip
    """Draw exponential schedules until one has enough failures in time, and ``fits``.

    ``failures``: least and most of them; ``seed``: that of an attempt."""
    fewest, most = failures
    per_hour = 3600 * (fewest + most) / 2 / (len(targets) * (end_s - begin_s))
    for attempt in range(ATTEMPTS):
        found = exponential(
            targets, rate_per_hour=per_hour, duration_s=end_s, seed=seed(attempt),
            repair_s=repair_s,
        )  # fmt: skip
        kills = found.kills
        if fewest <= len(kills) <= most and kills[0].at_s >= begin_s and fits(kills):
            return found
    raise AssertionError(f"{ATTEMPTS} exponential schedules, and none fits into {end_s} s")


def _back_in_time(kills: Sequence[FailureEvent], scale: Scale, slow: str) -> bool:
    """Return True if the slow rack fails once and is back before the end."""
    mine = [kill.at_s for kill in kills if kill.target == slow]
    return len(mine) == 1 and mine[0] + scale.rack_away_s + CALM_S <= scale.load_s


def _whole(drawn: Schedule, racks: Mapping[str, Sequence[str]]) -> Schedule:
    """Return the failures alone, a rack as all of its nodes; the engine starts them again.

    The worker under a rack's nodes lives, so that they are back in seconds and not in the time that
    an executor takes to start."""
    events = [
        replace(kill, target=TOGETHER.join(racks.get(kill.target, [kill.target])))
        for kill in drawn.kills
    ]
    assert all(event.action is Action.KILL for event in events)
    return replace(drawn, events=events)


def _rack(node: str) -> str:
    return node.partition("n")[0]
