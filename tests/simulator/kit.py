"""Simulated runs in which nothing happens but what a test adds, and the worlds of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.wiring import Wiring
from harness.simulator.draw import draw
from harness.simulator.observing import Observer
from harness.simulator.options import Costs, Network, Options
from harness.simulator.run import SimulatedRun, simulate
from harness.simulator.world import World

NEVER_US = 10_000_000_000


def local(**changes: Any) -> Scheme:
    """Return a scheme with local checkpoints every three batches."""
    given = {"checkpoint_every": 3, "heartbeat_us": 500_000, "suspect_after_us": 1_250_000}
    return Scheme(name="test", recovery=Recovery.LOCAL, **{**given, **changes})


def calm(wiring: Wiring, *, spare: int = 0, slots: int = 2, **changes: Any) -> Options:
    """Return a run without faults, with a node for each task, and others with so many slots."""
    hosts = [NodeInfo(name=f"w{n}", rack=f"r{n}", slots=1) for n in wiring.tasks]
    hosts += [NodeInfo(name=f"s{n}", rack=f"r{n}", slots=slots) for n in range(spare)]
    given = {
        "scheme": local(),
        "nodes": tuple(hosts),
        "placement": tuple(wiring.tasks),
        "strategy": None,
        "unknown_nodes": 0,
        "costs": Costs(batch_us=1_000),
        "network": Network(),
        "faults": (),
    }
    return replace(
        draw(0, scheme="checkpoint", topology="chain"), wiring=wiring, **{**given, **changes}
    )


def watched(
    options: Options, *observers: Observer, notes_progress: bool = False, **more: Any
) -> tuple[SimulatedRun, World]:
    """Return the result of a run, which ``observers`` watch, and its world at the end."""
    worlds: list[World] = []

    def prepare(world: World) -> None:
        world.notes_progress = notes_progress
        for observer in observers:
            world.watch.add(observer)
        worlds.append(world)

    report = simulate(options, prepare=prepare, **more)
    return report, worlds[-1]


def require_right(report: SimulatedRun) -> None:
    """Fail with the story of a run that violates an invariant."""
    if report.violation is not None:
        pytest.fail(
            f"seed {report.seed}, scheme {report.scheme}, topology {report.topology}: "
            f"{report.violation.invariant}: {report.violation.what}\n{report.violation.story}"
        )
