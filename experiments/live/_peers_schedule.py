"""A failure schedule of the user's own, instead of the kills of `experiments.live.peers`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.live._peers_rows import System
from harness.cluster.base import STORE, Action
from harness.cluster.killing import server_of
from harness.errors import UsageError
from harness.failures.schedule import Schedule

if TYPE_CHECKING:
    from harness.cluster.base import ClusterSpec
    from harness.engines.base import EngineKind

LONGEST_S = 600.0
"""End of the longest schedule."""


def given(options: Mapping[str, Any]) -> Schedule | None:
    """Return the user's schedule; None without one."""
    from harness.failures.files import read_schedule

    file = options.get("failures")
    return None if file is None else read_schedule(Path(file))


def refusal(schedule: Schedule, kind: EngineKind, spec: ClusterSpec) -> UsageError | None:
    """Return why a schedule cannot be carried out under an engine; None if it can."""
    try:
        schedule.check(
            rack_of=spec.rack_of,
            parts=kind.parts(spec),
            servers={
                one.target for one in schedule.events if server_of(one.target) in kind.servers
            },
            actions=set(Action),
            duration_s=LONGEST_S,
            lasting=True,
        )
    except UsageError as error:
        return error
    return None


def after(schedule: Schedule, system: System) -> tuple[Schedule, float]:
    """Return a schedule that begins once output is regular, and the length of the load."""
    events = [replace(one, at_s=one.at_s + system.first_s) for one in schedule.events]
    moved = replace(schedule, events=events, parameters={"begins_s": system.first_s})
    return moved, events[-1].at_s + system.gap_s


def spec_for(schedule: Schedule | None, spec: ClusterSpec) -> ClusterSpec:
    """Return a system's cluster; its store survives a restart where the schedule breaks it."""
    targets = {one.target for one in schedule.events} if schedule else set()
    return replace(spec, append_only=STORE in targets)
