"""A run in doubt decides nothing; what is counted is decided all the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from harness.claims import Claim, ClaimKind, Finding, Verdict, Word, every, hypothesis
from harness.measurement import Context, Origin
from harness.pages.trust import trusted
from harness.results.record import OK, TOO_FEW_CORES, Outcome, Point
from harness.results.speed import slower
from tests.pages.test_report import judged
from tests.toys import toy

ROOM = {TOO_FEW_CORES: None, "loop_cpu_ms": 0.40}


def run(again: str | None = None, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(again=again, status=OK, values={**ROOM, **values})


def decided(
    *runs: SimpleNamespace, origin: Origin = Origin.MEASURED, in_turns: bool = True, **changes: Any
) -> Verdict:
    verdict = Verdict(
        text="t", kind=ClaimKind.HYPOTHESIS, held=True, measured={}, samples=6, **changes
    )
    campaign = SimpleNamespace(valid=runs, samples=len(runs))
    experiment = toy(origin=origin, in_turns=in_turns)
    return trusted(verdict, experiment, cast(Any, campaign))


def test_runs_with_room_at_one_speed_decide() -> None:
    assert decided(run(), run(loop_cpu_ms=0.43)).word is Word.HOLDS


@pytest.mark.parametrize(
    ("bad", "word", "why"),
    [
        (run(again="others used 40%"), Word.UNDECIDED, "1 of 2 runs are in doubt after all"),
        (run(loop_cpu_ms=0.45), Word.UNDECIDED, "up to 12% slower in 1 of 2 runs"),
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


def test_a_claim_about_other_rows_does_not_rest_on_a_run_without_room(tmp_path: Path) -> None:
    def measure(point: Point, context: Context) -> Outcome:
        y = float(str(point["x"]))
        short = "this machine has too few cores: 9% of 2 cores" if y == 3 else None
        return Outcome(values={"y": y, TOO_FEW_CORES: short})

    def of(most: int) -> Claim:
        def grows(frame: pd.DataFrame) -> Finding:
            seen = frame.loc[frame["x"] <= most, "y"]
            return every(seen > 0, y=seen.tolist())

        return hypothesis(f"up-to-{most}", "y is above zero")(grows)

    experiment = toy(measure, origin=Origin.MEASURED, claims=[of(2), of(3)], fewest=1)
    words = [verdict.word for verdict in judged(tmp_path, experiment).claims]
    assert words == [Word.HOLDS, Word.NOT_MEASURED]


def test_the_runs_with_room_decide_where_every_point_has_enough_of_them(tmp_path: Path) -> None:
    def measure(point: Point, context: Context) -> Outcome:
        short = point["x"] == 3 and context.repeat == 0
        y = -1.0 if short else float(str(point["x"]))
        why = "this machine has too few cores: 9% of 2 cores" if short else None
        return Outcome(values={"y": y, TOO_FEW_CORES: why})

    def grows(frame: pd.DataFrame) -> Finding:
        return every(frame["y"] > 0, rows=len(frame))

    claims = [hypothesis("above", "y is above zero")(grows)]
    for fewest, word in ((1, Word.HOLDS), (2, Word.NOT_MEASURED)):
        experiment = toy(measure, origin=Origin.MEASURED, claims=claims, fewest=fewest)
        (found,) = judged(tmp_path / str(fewest), experiment).claims
        assert found.word is word, found
        if word is Word.HOLDS:
            assert found.measured["rows"] == 5


def test_the_speed_is_asked_of_the_rows_of_a_comparison() -> None:
    unlike = run(), run(loop_cpu_ms=0.7)
    assert decided(*unlike, in_turns=False).word is Word.HOLDS
    assert decided(*unlike).word is Word.UNDECIDED
    invalid = run(loop_cpu_ms=0.2)
    invalid.status = "invalid"
    (slow,) = slower(cast(Any, [*unlike, invalid]))
    assert slow.values["loop_cpu_ms"] == 0.7
