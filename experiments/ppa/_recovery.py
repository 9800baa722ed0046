"""The papers' recovery topology in virtual time (ppa ICDE section VI-A, TKDE 7.1).

16 source tasks on four nodes, 15 synthetic tasks (8, 4, 2, 1) on a node each, 15 backup nodes.
Every synthetic task keeps a window of 10 or 30 s that slides by a second, and passes on half of
its input. Heartbeats find a dead node within 5 s; recovery latency counts from there until every
failed task is back where it was, the papers' definition.

The speed of the papers' machines is not printed. The nodes have a chosen, declared speed
(`MACHINE`), which every figure shows. Recovery takes a time that depends on the number of tuples
and not on their contents, so tuples are counted, not made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from harness.hosting.restoration import Restoration, Restorations
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.planned import wiring_of
from harness.protocol.scheme import Recovery, Scheme
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network, Options
from harness.simulator.synthetic import counts
from harness.simulator.world import World
from harness.topology import named

WINDOWS_S = (10, 30)
RATES = (1_000, 2_000)
"""Tuples per second of one source task."""
SOURCE_NODES, TASKS_PER_SOURCE_NODE = 4, 4
LEVELS = {"O1": 8, "O2": 4, "O3": 2, "O4": 1}
SOURCES = 16
SYNTHETIC = tuple(range(SOURCES, SOURCES + sum(LEVELS.values())))
"""Task numbers, O1 first."""
FIRSTS = dict(zip(LEVELS, accumulate([SOURCES, *LEVELS.values()]), strict=False))
"""The first task of each operator."""


def level_of(task: int) -> str:
    """Return the operator of a synthetic task."""
    return next(name for name in reversed(FIRSTS) if task >= FIRSTS[name])


MACHINE = Costs(batch_us=1_000, tuple_us=100, store_us=5, load_us=5)
COSTS = replace(MACHINE, source_us=20, check_us=10)
"""The same with what live sources and duplicates cost by themselves."""
NETWORK = Network(
    delay_us=1_000, jitter_us=1_000, bytes_per_s=50_000_000, tuple_bytes=100, queues=True
)
END_US = 3_600_000_000
GIVE_UP_US = 600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A fault-tolerance scheme of the papers' legends."""

    label: str
    recovery: Recovery = Recovery.LOCAL
    checkpoint_s: int = 15
    trim_s: int = 5
    replicated: tuple[int, ...] = ()

    def scheme(self) -> Scheme:
        return Scheme(
            name=self.label,
            recovery=self.recovery,
            checkpoint_every=0 if self.recovery is Recovery.REPLAY else self.checkpoint_s,
            replicated=self.replicated,
            trim_every_us=self.trim_s * 1_000_000,
            sends_buffer=True,
            heartbeat_us=2_000_000,
            suspect_after_us=5_000_000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The recovery from one failure."""

    by_task: Mapping[int, float]
    """Failed task to the seconds from detection until it was back where it had been."""
    resumed_s: float
    """Seconds from detection until each failed task had processed a batch more than before."""

    def latency_s(self, tasks: Collection[int] | None = None) -> float:
        """Return the seconds until the last of ``tasks`` (None: of all that failed) was back."""
        return max(s for task, s in self.by_task.items() if tasks is None or task in tasks)


def phase_of(repeat: int) -> float:
    """Return the phase (0 to 1) of the checkpoint interval at which a repetition's failure falls.

    The middle comes first; the golden ratio then spreads any number of repetitions evenly."""
    return (0.5 + repeat * 0.6180339887498949) % 1.0


def half_of_the_trees() -> tuple[int, ...]:
    """Return the sink and the whole subtree above one of its two inputs.

    These are 8 of the 15 tasks, so that half of the MC-trees are complete."""
    return tuple(
        FIRSTS[name] + number
        for name, degree in LEVELS.items()
        for number in range(max(1, degree // 2))
    )


def one_location() -> Sequence[tuple[tuple[int, ...], float]]:
    """Return a task in the middle, for the smoke profile."""
    return [((FIRSTS["O2"],), 1.0)]


def locations() -> Sequence[tuple[tuple[int, ...], float]]:
    """Return pairs of failed task and weight for the mean over locations.

    The tasks of a level behave alike, so one of each level is enough."""
    return [((FIRSTS[name],), degree / len(SYNTHETIC)) for name, degree in LEVELS.items()]


def options_of(
    contender: Contender,
    *,
    window_s: int,
    rate: int,
    failed: Collection[int],
    phase: float,
    seed: int,
) -> Options:
    """Return a run where windows fill, then the nodes of the ``failed`` tasks die and stay away.

    They die ``phase`` (0 to 1) of a checkpoint interval after the last checkpoint."""
    topology = named.recovery(rate)
    replays = contender.recovery is Recovery.REPLAY
    wiring = wiring_of(topology, _windows(window_s, failed if replays else None))
    assert len(wiring.names) == SOURCES + len(SYNTHETIC)
    slots = TASKS_PER_SOURCE_NODE
    nodes = [NodeInfo(name=f"s{n}", rack=f"s{n}", slots=slots) for n in range(SOURCE_NODES)]
    nodes += [NodeInfo(name=f"w{n}", rack=f"w{n}", slots=1) for n in range(len(SYNTHETIC))]
    nodes += [NodeInfo(name=f"b{n}", rack=f"b{n}", slots=1) for n in range(len(SYNTHETIC))]
    every, full_s = contender.checkpoint_s, window_s + 5
    begin_us = int((-(-full_s // every) + 1 + phase) * every * 1_000_000) + 300_000
    placement = [source // slots for source in range(SOURCES)]
    placement += [SOURCE_NODES + n for n in range(len(SYNTHETIC))]
    return Options(
        seed=seed,
        topology="recovery",
        wiring=wiring,
        scheme=contender.scheme(),
        nodes=tuple(nodes),
        placement=tuple(placement),
        batches=(begin_us + GIVE_UP_US) // 1_000_000,
        interval_us=1_000_000,
        tuples=rate,
        percent=50,
        costs=COSTS,
        network=NETWORK,
        faults=tuple(
            Fault(kind=FaultKind.KILL, at_us=begin_us, until_us=END_US, target=placement[task])
            for task in sorted(failed)
        ),
    )


def _windows(window_s: int, replayed: Collection[int] | None) -> dict[str, int]:
    """Return the batches that each operator's state depends on.

    ``replayed``: failed tasks that source replay recovers. The papers replay "all the source tuples
    belonging to the unfinished window instances in the failed tasks": one window, which passes all
    operators up to the last of those tasks and fills their windows on its way."""
    if replayed is None:
        return dict.fromkeys(LEVELS, window_s)
    return {level_of(max(replayed)): window_s}


def measure(options: Options) -> Recovered:
    """Run until every failed task is back and has gone on.

    Raises `RuntimeError` if one has not after ten minutes."""
    world = World(options, counts(options), validate=False, notes_progress=True, kept=0)
    world.start()
    hit = {fault.target for fault in options.faults}
    lost = {task for task, node in enumerate(options.placement) if node in hit}
    followed, seen = Restorations(), 0
    ways: dict[int, Restoration] = {}
    resumed_us: dict[int, int] = {}

    def back() -> bool:
        nonlocal seen
        if seen == len(world.notes):
            return False
        for noted in world.notes[seen:]:
            followed.note(noted)
            ways.update((way.task, way) for way in followed.done if way.task in lost)
            note, way = noted.note, ways.get(noted.note.task)
            newer = way is not None and (note.term or 0) > way.term
            if newer and way is not None and note.position > way.goal:
                resumed_us.setdefault(note.task, noted.at_us)
        seen = len(world.notes)
        return lost <= resumed_us.keys()

    if not world.kernel.run(until=options.faults[0].at_us + GIVE_UP_US, stop=back):
        left = ", ".join(world.wiring.names[task] for task in sorted(lost - resumed_us.keys()))
        raise RuntimeError(f"{left} not back {GIVE_UP_US / 1e6:g} s after the failure")
    detected = max(way.detected_us for way in ways.values())
    return Recovered(
        by_task={
            task: max(0, (way.restored_us or 0) - detected) / 1e6 for task, way in ways.items()
        },
        resumed_s=max(0, max(resumed_us.values()) - detected) / 1e6,
    )


def measure_costs(options: Options) -> float:
    """Return processor time of checkpoints per processor time of computing, without a failure.

    It is the mean over the synthetic tasks of each task's ratio, in one minute of full windows."""
    calm = replace(options, faults=())
    world = World(calm, counts(calm), validate=False, kept=0)
    world.start()
    begin = options.faults[0].at_us
    spent = []
    for until in (begin, begin + 60_000_000):
        world.kernel.run(until=until)
        spent.append([(world.copy_us[task], world.compute_us[task]) for task in SYNTHETIC])
    (copied, computed) = np.swapaxes(np.diff(np.array(spent), axis=0)[0], 0, 1)
    return float((copied / computed).mean())


# Shown: no record depends on what follows.

STAMP = (
    "simulated, virtual time; machines chosen: 10,000 tuples/s per task, 5 µs per tuple of a "
    "checkpoint, 400 Mbit/s"
)
NOTES = (
    "Simulated in virtual time by the same protocol code as the live engine runs. The papers do "
    "not print the speed of their machines; chosen: 100 µs to process a tuple, 5 µs to write or "
    "read one of a checkpoint, 20 µs to read and send one at a source, 10 µs to recognize one that "
    "came before, 100 bytes a tuple, links of 400 Mbit/s, batches of one second.",
    "Suspicion after 5 s, as in the papers; heartbeats every 2 s (chosen). Detection is not part "
    "of the recovery latency.",
)
