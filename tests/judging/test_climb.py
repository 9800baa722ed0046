"""The order in which rungs are tried; `test_calibration` has the way down to one that is held."""

from __future__ import annotations

from harness.judging.climb import Climb


def climb_to(limit: int) -> Climb[int, int]:
    """Return a climb over numbers, of which those up to ``limit`` are held."""
    return Climb(lambda rung: rung, lambda rung: rung <= limit)


def rungs(climb: Climb[int, int]) -> tuple[list[int], int | None, int | None]:
    """Return the rungs that were tried, and the newest one that was held and that was not."""
    held, missed = (None if one is None else one.rung for one in (climb.held, climb.missed))
    return [step.rung for step in climb.steps], held, missed


def test_up_until_some_in_a_row_are_not_held() -> None:
    climb = climb_to(2)
    climb.until_missed([1, 2, 4, 8])
    assert rungs(climb) == ([1, 2, 4], 2, 4)
    twice = climb_to(2)
    twice.until_missed([1, 4, 2, 8, 16, 32], in_a_row=2)
    assert rungs(twice) == ([1, 4, 2, 8, 16], 2, 16), "one that was held begins the count anew"
    all_held = climb_to(9)
    all_held.until_missed([1, 2])
    assert rungs(all_held) == ([1, 2], 2, None)


def test_a_rung_in_doubt_is_tried_once_more_and_counts_as_it_was_then() -> None:
    answers = [9, 1, 9, 9, 2]
    climb: Climb[str, int] = Climb(
        lambda rung: answers.pop(0), lambda shown: shown < 5, in_doubt=lambda shown: shown == 9
    )
    climb.until_held(["a", "b"])
    assert [(step.rung, step.tries, step.held) for step in climb.steps] == [("a", [9, 1], True)]
    assert not climb.try_rung("c")
    assert climb.results == [9, 1, 9, 9]
