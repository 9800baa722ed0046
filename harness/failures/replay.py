"""A failure log of a real system as a schedule, in scaled time and on a smaller cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import pandas as pd

from harness.cluster.base import TOGETHER, Action
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule

SHORTEST_S = 1.0
"""Shortest absence of a node: less than the start of its processes changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A schedule from a log, and the failures that it leaves out."""

    schedule: Schedule
    failures: int
    """Failures of the log that are in the schedule."""
    away: int = 0
    """Left out: the node, or another one of the log on its place, was away already."""
    later: int = 0
    """Left out: after the end of the load."""

    def to_yaml(self, *, source: str, scale: float) -> str:
        """Return the file, with what was left out in its first lines."""
        lines = [
            f"# {self.failures} failures of {source}, {scale:g} times as fast.",
            f"# Left out: {self.away} while their node was away, {self.later} after the load.",
            "failures:",
            *(
                f"  - {{at: {one.at_s:.3f}s, action: {one.action.value}, target: {one.target}}}"
                for one in self.schedule.events
            ),
        ]
        return "\n".join(lines) + "\n"


def replay(
    failures: pd.DataFrame,
    rack_of: Mapping[str, str],
    *,
    scale: float,
    load_s: float,
    first_s: float,
    begin: int = 1,
    open_s: float | None = None,
) -> Replay:
    """Return the failures of a log (`datasets.failure_logs`) on the nodes of a cluster.

    Time runs ``scale`` times as fast. The ``begin``-th failure is the first, at ``first_s``.
    Neighbours in the order of the log's names are neighbours in the cluster, so that what failed
    together is in one rack. ``open_s`` is the length of a repair that the log does not have, in
    the log's time; without it such a node stays away."""
    if not scale > 0 or not 0 <= first_s < load_s:
        raise UsageError(
            f"a scale of {scale:g}, and a first failure at {first_s:g} s of {load_s:g} s of load",
            remedy="give a scale above 0, and a first failure before the end of the load",
        )
    if not 1 <= begin <= len(failures):
        raise UsageError(
            f"the log has {len(failures)} failures, and the first is to be number {begin}",
            remedy=f"begin with one from 1 to {len(failures)}",
        )
    ordered = failures.sort_values("began_s", kind="stable")
    place = _places(ordered["node"].unique(), list(rack_of))
    origin_s = float(ordered["began_s"].iloc[begin - 1])
    back_s: dict[str, float] = {}
    events: list[tuple[float, Action, str]] = []
    away = later = 0
    rows = ordered.iloc[begin - 1 :]
    for name, began_s, ended_s in zip(rows["node"], rows["began_s"], rows["ended_s"], strict=True):
        at_s = round(first_s + (float(began_s) - origin_s) / scale, 3)
        node = place[name]
        if at_s >= load_s:
            later += 1
            continue
        if at_s <= back_s.get(node, -inf):
            away += 1
            continue
        seconds = float(ended_s) - float(began_s)
        if seconds != seconds:
            seconds = inf if open_s is None else open_s
        back_s[node] = round(at_s + max(seconds / scale, SHORTEST_S), 3)
        events.append((at_s, Action.KILL, node))
        if back_s[node] < load_s:
            events.append((back_s[node], Action.RESTART, node))
    schedule = Schedule(
        events=_together(events, rack_of),
        origin="failure log",
        parameters={"scale": scale, "begin": begin, "open_s": open_s},
    )
    number = sum(action is Action.KILL for _, action, _ in events)
    return Replay(schedule=schedule, failures=number, away=away, later=later)


def _places(names: Iterable[str], nodes: Sequence[str]) -> dict[str, str]:
    """Return the node of the cluster for each name, in blocks of the names' natural order."""
    ordered = sorted(map(str, names), key=_natural)
    fewest = max(len(ordered), len(nodes))
    return {name: nodes[index * len(nodes) // fewest] for index, name in enumerate(ordered)}


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key by which n2 comes before n10."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in pieces]


def _together(
    events: Sequence[tuple[float, Action, str]], rack_of: Mapping[str, str]
) -> list[FailureEvent]:
    """Return events of which those at one instant are one, on a rack where they make up one."""
    nodes: dict[tuple[float, Action], set[str]] = {}
    for at_s, action, node in events:
        nodes.setdefault((at_s, action), set()).add(node)
    found = []
    for (at_s, action), hit in sorted(nodes.items(), key=lambda one: one[0]):
        names: list[str] = []
        for rack in dict.fromkeys(rack_of.values()):
            members = [node for node, its in rack_of.items() if its == rack]
            there = [node for node in members if node in hit]
            whole = len(members) > 1 and there == members
            names += [rack] if whole else there
        found.append(FailureEvent(at_s=at_s, action=action, target=TOGETHER.join(names)))
    return found
