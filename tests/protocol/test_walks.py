"""Random lives of one copy keep all invariants, and would reveal forgotten state."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ProtocolViolation
from harness.protocol.task.computation import Mode
from tests.levels import amount
from tests.protocol.walks import STEPS, Walk, WrongOutput
from tests.simulator.mutations import MUTATIONS, Mutation


@settings(max_examples=amount(150), deadline=None)
@given(st.integers(0, 2**32))
def test_any_life_of_a_copy_ends_with_the_right_output(seed: int) -> None:
    Walk(Random(seed)).run()


def test_lives_spend_their_time_in_every_mode() -> None:
    seen: Counter[Mode] = Counter()
    for seed in range(60):
        seen += Walk(Random(seed)).run()
    for mode in (Mode.FAILURE, Mode.STABILIZATION):
        assert seen[mode] > 60 * STEPS // 20, seen


SEEN_IN_ONE_COPY = (
    "skip the duplicate check",
    "lose an undo",
    "never correct tentative output",
    "redo from the tentative state",
    "keep one batch too little for undo",
    "publish again after a lost answer",
    "put a tentative part in a stable one's place",
    "take a batch for published that is not",
    "take the parts of a batch in another order",
)


@pytest.mark.parametrize("name", SEEN_IN_ONE_COPY)
def test_lives_betray_sabotage(name: str) -> None:
    [mutation] = [m for m in MUTATIONS if m.name == name]
    assert _betrayed(mutation), f"no life of 300 shows that a copy can {name}"


def _betrayed(mutation: Mutation) -> bool:
    with mutation.applied():
        for seed in range(300):
            try:
                Walk(Random(seed)).run()
            except (WrongOutput, ProtocolViolation, AssertionError, KeyError):
                return True
    return False
