"""A run in doubt decides nothing; what is counted is decided all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.claims import ClaimKind, Verdict, Word
from harness.measurement import Origin
from harness.pages.trust import trusted
from harness.results.record import TOO_FEW_CORES

ROOM = {TOO_FEW_CORES: None, "loop_cpu_ms": 0.40}


def run(again: str | None = None, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(again=again, values={**ROOM, **values})


def decided(*runs: SimpleNamespace, origin: Origin = Origin.MEASURED, **changes: Any) -> Verdict:
    verdict = Verdict(
        text="t", kind=ClaimKind.HYPOTHESIS, held=True, measured={}, samples=6, **changes
    )
    campaign = SimpleNamespace(valid=runs, samples=len(runs))
    return trusted(verdict, cast(Any, SimpleNamespace(origin=origin)), cast(Any, campaign))


def test_runs_with_room_at_one_speed_decide() -> None:
    assert decided(run(), run(loop_cpu_ms=0.43)).word is Word.HOLDS


@pytest.mark.parametrize(
    ("bad", "word", "why"),
    [
        (run(again="others used 40%"), Word.UNDECIDED, "1 of 2 runs are in doubt after all"),
        (run(loop_cpu_ms=0.45), Word.UNDECIDED, "up to 12% slower in some runs"),
        (run(**{TOO_FEW_CORES: "this machine has too few cores: 9% of 2 cores"}),
         Word.NOT_MEASURED, "this machine has too few cores: 9% of 2 cores"),
    ],
)  # fmt: skip
def test_a_run_that_does_not_count_decides_nothing(
    bad: SimpleNamespace, word: Word, why: str
) -> None:
    found = decided(run(), bad)
    assert found.word is word
    assert why in str(found.why)
    assert decided(run(), bad, counted=True).word is Word.HOLDS
    assert decided(run(), bad, origin=Origin.SIMULATED).word is Word.HOLDS


def test_the_speed_is_asked_of_runs_that_say_what_room_they_had() -> None:
    older = [SimpleNamespace(again=None, values={"loop_cpu_ms": speed}) for speed in (0.4, 0.7)]
    assert decided(*older).word is Word.HOLDS
