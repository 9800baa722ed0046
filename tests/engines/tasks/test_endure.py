"""The verdict on a pass, and the schedules of kills: without a cluster."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import pandas as pd
import pytest

from harness.cluster.base import BROKER, STORE
from harness.endurance.draw import (
    RACK_GAP_S,
    RUN_S,
    Choice,
    schedule,
)
from harness.endurance.endure import Tally
from harness.endurance.trial import Disturb, Verdict, judged
from harness.engines.tasks.choices import infos, parameters_of, placement_of, scheme_of
from harness.engines.tasks.job import wiring_for
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.systems import SYSTEMS
from harness.hosting.codec import encode
from harness.measure.collector import Message
from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence
from tests.engines.tasks.kit import counts, machines
from workloads.wordcount import word_count

WORDS = word_count(text=[__file__])
NODES = machines(2, 2)


def stable(batch: int, **words: int) -> OutputRecord:
    return OutputRecord(kind=Kind.STABLE, batch=batch, payload=counts(1, **words))


def tentative(batch: int, **words: int) -> OutputRecord:
    return OutputRecord(kind=Kind.TENTATIVE, batch=batch, payload=counts(1, **words))


def undo(batch: int) -> OutputRecord:
    return OutputRecord(kind=Kind.UNDO, batch=batch)


def whole_verdict(*entries: OutputEntry) -> Verdict:
    """Return the verdict on these entries where a: 1 and b: 2 are due."""
    messages = [
        Message(append_ms=0, partition=0, offset=offset, value=encode(entry), copy=6)
        for offset, entry in enumerate(entries)
    ]
    truth = pd.DataFrame({"window_start": [1000, 1000], "word": ["a", "b"], "count": [1, 2]})
    return judged(messages, truth, WORDS, kills=0)


def verdict(*entries: OutputEntry) -> dict[str, int]:
    """Return the numbers of the verdict that are not zero, and not right."""
    found = asdict(whole_verdict(*entries))
    right = ("results", "tentative", "corrected")
    return {name: number for name, number in found.items() if number and name not in right}


def batch(sequence: int, *records: OutputRecord, term: int = 1) -> OutputBatch:
    return OutputBatch(term=term, sequence=sequence, records=records)


FENCE = OutputFence(term=1)


def test_a_repeated_publication_and_a_fenced_one_are_no_results() -> None:
    assert verdict(
        FENCE,
        batch(1, stable(0, a=1)),
        batch(1, stable(0, a=1)),
        OutputFence(term=2),
        batch(2, stable(1, b=7)),
        batch(1, stable(1, b=2), term=2),
    ) == {"fenced": 1}


def test_what_was_tentative_is_counted_and_no_failure() -> None:
    corrected = batch(2, undo(0), stable(0, a=1, b=2))
    found = whole_verdict(FENCE, batch(1, tentative(0, a=7)), corrected)
    assert (found.tentative, found.corrected, found.failures) == (1, 1, 0)


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([batch(1, stable(0, a=1)), batch(2, stable(1, b=2))], {}),
        ([batch(1, tentative(0, a=7)), batch(2, undo(0), stable(0, a=1, b=2))], {}),
        ([batch(1, stable(0, a=1))], {"lost": 1}),
        ([batch(1, stable(0, a=1, b=2)), batch(2, stable(1, b=2))], {"duplicated": 1}),
        ([batch(1, stable(0, a=1, b=7))], {"contradictions": 1}),
        ([batch(1, stable(0, a=1, b=2, c=1))], {"contradictions": 1}),
        ([batch(1, stable(0, a=1, b=2)), batch(2, undo(0))], {"undone_stable": 1}),
        ([batch(1, stable(0, a=1, b=2), tentative(1, c=3))], {"uncorrected": 1}),
    ],
)
def test_what_is_wrong_is_counted(entries: list[OutputEntry], wrong: dict[str, int]) -> None:
    assert verdict(FENCE, *entries) == wrong


@pytest.mark.parametrize("contender", list(SYSTEMS))
def test_a_tight_pass_has_a_slot_for_every_copy(contender: str) -> None:
    choice = Choice(contender=contender, workload=WORDS, away_s=2.0, tight=True)
    setup = choice.setup(NODES, 400, TaskParameters(checkpoint_s=1.0))
    wiring = wiring_for(WORDS, 100_000, {})
    scheme = scheme_of(setup, wiring, 0.1)
    copies = len(wiring.names) + len(scheme.replicated)
    given = parameters_of(setup)
    slots = given.slots
    assert isinstance(slots, int)
    assert copies <= slots * len(NODES) < copies + 2 * len(NODES)
    nodes = infos(given, NODES, wiring, scheme)
    assert len(placement_of(given, nodes, wiring)) == len(wiring.names)
    assert given.restart_s == 2.0
    if contender in ("ppa", "rppg-dra", "rppg-ras", "dpc"):
        assert scheme.replicated


def test_schedules_kill_everything_and_leave_time() -> None:
    found = [d for number in range(40) for d in schedule(1, number, NODES, servers=(BROKER, STORE))]
    assert {d.kind for d in found} == set(Disturb) - {Disturb.CUT, Disturb.JOIN, Disturb.SERVER}
    assert {d.target for d in found if d.kind is Disturb.PAUSE} >= {BROKER, STORE, "r1n1"}
    assert {d.target for d in found if d.kind is Disturb.KILL} >= {"r1", "r2", "r1n1", "r2n2"}
    for number in range(40):
        racks = [d.at_s for d in schedule(1, number, NODES) if d.target in ("r1", "r2")]
        assert all(b - a >= RACK_GAP_S - 0.01 for a, b in pairwise(racks))
        last = [d.at_s + d.for_s for d in schedule(1, number, NODES)]
        assert last == sorted(last)


def test_with_cuts_one_rack_at_a_time_is_away_and_the_other_not_killed() -> None:
    for number in range(40):
        found = schedule(1, number, NODES, cuts=True)
        away_until_s = 0.0
        for disturbance in found:
            if disturbance.kind is Disturb.CUT or disturbance.target in ("r1", "r2"):
                assert disturbance.at_s >= away_until_s, found
            if disturbance.kind is Disturb.CUT:
                assert disturbance.target in ("r1", "r2")
                away_until_s = disturbance.at_s + disturbance.for_s
                assert away_until_s <= RUN_S, "all are healed before the load ends"
    assert any(d.kind is Disturb.CUT for d in found)


def test_a_tally_fails_on_anything_that_is_wrong() -> None:
    assert not Tally(kills=20, runs=2, results=1_000).failures
    for name in ("lost", "duplicated", "contradictions", "undone_stable", "uncorrected", "stalled"):
        tally = Tally()
        setattr(tally, name, 1)
        assert tally.failures == 1
    assert Tally(leftover_processes=2).failures == 2
