"""The space-time picture of one run: a row per task, time to the right."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.protocol import inputs as told
from harness.protocol.effects import Kind
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.observing import Observer
from harness.simulator.options import Options
from harness.simulator.run import SimulatedRun, simulate
from harness.simulator.world import World

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NODE_FAULTS = (FaultKind.KILL, FaultKind.RACK, FaultKind.FREEZE, FaultKind.CUT, FaultKind.BUSY)


@dataclass(slots=True)
class Trace(Observer):
    """The events of a run that a picture shows; times in microseconds."""

    spans: list[tuple[int, bool, str, int, int]] = field(default_factory=list)
    """(task, replica, kind, begin, end): stable, tentative or rebuild."""
    marks: list[tuple[int, str, int]] = field(default_factory=list)
    """(task, kind, at): checkpoint, start or takeover."""
    hosts: list[tuple[Fault, tuple[int, ...]]] = field(default_factory=list)
    """A fault, and the tasks whose copies were on the nodes it hit."""

    def computed(self, world: World, node: int, item: Any, begin: int, end: int) -> None:
        machine = world.nodes[node].machine
        key = item.task, item.incarnation
        copy = machine.copies.get(key) if machine is not None else None
        replica = copy is not None and not copy.primary
        if isinstance(item, told.BatchProcessed):
            kind = "tentative" if item.run is told.Run.TENTATIVE else "stable"
            self.spans.append((item.task, replica, kind, begin, end))
        elif isinstance(item, told.StateRebuilt):
            self.spans.append((item.task, replica, "rebuild", begin, end))

    def handed(self, at: int, item: Any) -> None:
        if isinstance(item, told.CheckpointStored):
            self.marks.append((item.task, "checkpoint", at))
        elif isinstance(item, told.CopyPromoted):
            self.marks.append((item.task, "takeover", at))
        elif isinstance(item, told.CopyOrdered) and item.term is not None and item.incarnation > 1:
            self.marks.append((item.task, "restore", at))

    def striking(self, world: World, fault: Fault) -> None:
        nodes = [fault.target]
        if fault.kind is FaultKind.RACK:
            nodes = world.options.rack(fault.target)
        tasks = {task for node in nodes for task in world.transport.tasks_on(node)}
        self.hosts.append((fault, tuple(sorted(tasks)) if fault.kind in _NODE_FAULTS else ()))


def draw_run(options: Options, path: Path) -> SimulatedRun:
    """Run ``options`` and draw it into ``path`` (PNG or SVG, by its suffix)."""
    from harness.figures.style import new_figure, stamp, styled

    trace = Trace()
    worlds: list[World] = []

    def prepare(world: World) -> None:
        world.watch.add(trace)
        worlds.append(world)

    report = simulate(options, prepare=prepare)
    rows = len(options.wiring.names)
    with styled():
        figure = new_figure((11.0, 1.8 + 0.34 * rows + 0.3 * len(options.wiring.sinks)))
        axes = figure.add_subplot()
        _draw_tasks(axes, trace)
        _draw_faults(axes, trace, rows, worlds[0].kernel.now)
        _draw_output(axes, worlds[0], rows)
        _finish(axes, options, rows, worlds[0].kernel.now)
        figure.suptitle(
            f"seed {options.seed}: {options.scheme.name} on {options.topology}",
            x=0.01, ha="left", fontsize=11, fontweight="bold",
        )  # fmt: skip
        stamp(figure, "simulated, virtual time")
        figure.savefig(path, dpi=130)
    return report


def _draw_tasks(axes: Axes, trace: Trace) -> None:
    from harness.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

    colours = {"stable": BLUE, "tentative": ORANGE, "rebuild": PURPLE}
    for kind, colour in colours.items():
        for replica in (False, True):
            bars = [s for s in trace.spans if s[2] == kind and s[1] == replica]
            axes.barh(
                [task + (0.27 if replica else 0.0) for task, *_ in bars],
                [max(60_000, end - begin) / 1e6 for *_, begin, end in bars],
                left=[begin / 1e6 for *_, begin, _ in bars],
                height=0.16 if replica else 0.34,
                color=SKY if replica and kind == "stable" else colour,
                label=f"{kind} batch" + (" at the replica" if replica else ""),
            ) if bars else None
    for kind, marker, colour, size in (
        ("checkpoint", "|", "black", 6),
        ("restore", "^", VERMILION, 7),
        ("takeover", "D", GREEN, 6),
    ):  # fmt: skip
        marks = [m for m in trace.marks if m[1] == kind]
        if marks:
            axes.plot(
                [at / 1e6 for *_, at in marks], [task - 0.3 for task, *_ in marks], linestyle="",
                marker=marker, color=colour, markersize=size, label=kind, zorder=5,
            )  # fmt: skip


def _draw_faults(axes: Axes, trace: Trace, rows: int, now: int) -> None:
    from harness.figures.style import GREY, VERMILION

    for number, (fault, tasks) in enumerate(trace.hosts):
        begin, end = fault.at_us / 1e6, min(fault.until_us, now) / 1e6
        of_node = fault.kind in _NODE_FAULTS
        spans = [(task - 0.45, task + 0.45) for task in tasks]
        if not of_node:
            spans = [(-0.6, rows - 0.4)]
        colour = VERMILION if of_node else GREY
        words = str(fault.kind) + (" (idle node)" if of_node and not tasks else "")
        for low, high in spans:
            axes.fill_between(
                [begin, end], low, high, color=colour, alpha=0.18, linewidth=0, zorder=0
            )
        axes.text(
            begin, -0.75 - 0.55 * (number % 3), words, fontsize=7, color=colour,
            ha="left", va="bottom",
        )  # fmt: skip
        axes.plot([begin, begin], [-0.75 - 0.55 * (number % 3), rows], color=colour, linewidth=0.5)


def _draw_output(axes: Axes, world: World, rows: int) -> None:
    from harness.figures.style import BLUE, ORANGE

    for row, partition in enumerate(world.partitions.values()):
        for kind, colour, offset in ((Kind.STABLE, BLUE, 0.15), (Kind.TENTATIVE, ORANGE, -0.15)):
            at = [p.at_us / 1e6 for p in partition.records if p.record.kind is kind]
            axes.plot(at, [rows + row + offset] * len(at), ".", color=colour, markersize=5)


def _finish(axes: Axes, options: Options, rows: int, end_us: int) -> None:
    sinks = [f"output of {options.wiring.names[sink]}" for sink in options.wiring.sinks]
    axes.set_yticks(range(rows + len(sinks)), [*options.wiring.names, *sinks])
    axes.set_ylim(rows + len(sinks) - 0.4, -2.5)
    axes.set_xlim(0, end_us / 1e6)
    axes.set_xlabel("virtual time (s)")
    axes.grid(visible=False, axis="y")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4)
