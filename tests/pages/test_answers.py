"""Answers to a reader's questions: numbers from tables, and what makes an answer disappear."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest

from harness.claims import Word
from harness.claims.cells import Cells
from harness.measurement import Origin
from harness.pages.answer_picture import in_words, picture
from harness.pages.answers import Column, Question, answers, in_readme, lines
from harness.pages.assessment import Assessment
from harness.pages.questions import QUESTIONS
from harness.results.record import Profile
from harness.running.discovery import find
from harness.text import format_duration

QUESTION = Question(
    id="wait",
    words="How long?",
    parts=[
        Column("long", "toy/one", Cells("", "s", {"scheme": "a"}), label="a {times}"),
        Column(
            "times", "toy/one", Cells("", "s", {"scheme": "a"}, over={"scheme": "b"}), unit="times"
        ),
        Column("gone", "toy/none", Cells("", "s")),
    ],
    sentences=["It is {long}.", "It is {times} times b.", "Never {gone}."],
    axis="time [s]",
    claims=["toy/one/longer"],
    limits=["only a toy"],
)


def judged(
    passes: int = 6,
    word: Word = Word.HOLDS,
    origin: Origin = Origin.MEASURED,
    profile: Profile = Profile.QUICK,
) -> Assessment:
    rows = [(run, s, scheme) for run in range(passes) for s, scheme in ((2.0 + run, "a"), (2, "b"))]
    held = {Word.HOLDS: True, Word.DOES_NOT_HOLD: False}.get(word)
    item = SimpleNamespace(
        experiment=SimpleNamespace(
            id="toy/one", group="live", paper="Faultline", title="A toy", anchor="toy-one",
            origin=origin, grid={profile: [{}, {}]}, counterpart="",
            measurement=SimpleNamespace(
                id="toy/one", repeats={profile: 6}, seconds_per_run={profile: 15}
            ),
        ),
        campaign=SimpleNamespace(
            valid=[], backends=[], left_out=0,
            newest=SimpleNamespace(root_seed=7, repeats=passes, options={}),
        ),
        claims=[SimpleNamespace(id="longer", word=word, held=held, text="a is longer")],
        tables=lambda: {"": pd.DataFrame(rows, columns=["run", "s", "scheme"])},
        profile=profile,
    )  # fmt: skip
    return cast(Assessment, item)


def test_a_sentence_has_the_median_with_its_interval() -> None:
    (answer,) = answers([judged()], [QUESTION])
    assert answer.sentences == ["It is 4.5 s (2 s to 7 s).", "It is 2.25 (1 to 3.5) times b."]
    assert [bar.label for bar in answer.bars] == ["a 2.25 (1 to 3.5)"]
    assert answer.against == ["only a toy"]


@pytest.mark.parametrize(
    ("passes", "origin", "words", "expect"),
    [
        (1, Origin.MEASURED, "live, 1 pass: the order of magnitude, no more", "other numbers of"),
        (5, Origin.MEASURED, "live, 5 passes: rough, without an interval", "other numbers of"),
        (6, Origin.MEASURED, "live, 6 passes: 95 % intervals", "medians within these intervals"),
        (1, Origin.COMPUTED, "computed", "the same numbers"),
    ],
)
def test_the_number_of_passes_says_what_a_number_is_worth_and_what_a_new_one_may_be(
    passes: int, origin: Origin, words: str, expect: str
) -> None:
    (answer,) = answers([judged(passes, origin=origin)], [QUESTION])
    (ground,) = answer.grounds
    assert ground.words == words
    assert ground.expect.startswith(expect)
    assert answer.bars[0].few is (passes < 6)
    again = "" if passes == 6 else f" --repeats {passes}"
    assert ground.command == f"./faultline run toy/one --profile quick --seed 7{again} --again"
    assert ground.takes == f"about {format_duration(2 * 15 * passes)}"


def test_an_undecided_claim_and_the_smoke_profile_speak_against_it() -> None:
    item = judged(word=Word.UNDECIDED, profile=Profile.SMOKE)
    (answer,) = answers([item], [QUESTION])
    assert answer.against[0].startswith("the smoke profile")
    assert "undecided: “a is longer”" in answer.against


@pytest.mark.parametrize(
    "question",
    [
        replace(QUESTION, sentences=["Never {gone}.", "It is {long}."]),
        replace(QUESTION, parts=QUESTION.parts[1:]),
    ],
)
def test_without_the_numbers_of_its_first_sentence_there_is_no_answer(question: Question) -> None:
    assert not answers([judged()], [question])


def test_there_is_no_answer_if_a_claim_behind_it_does_not_hold() -> None:
    assert not answers([judged(word=Word.DOES_NOT_HOLD)], [QUESTION])


def test_an_answer_is_shown_in_a_terminal_a_readme_and_a_picture() -> None:
    found = answers([judged()], [QUESTION])
    assert lines(found) == [
        "1. How long?",
        "   It is 4.5 s (2 s to 7 s).",
        "   It is 2.25 (1 to 3.5) times b.",
        "   rests on: live, 6 passes: 95 % intervals (A toy)",
        "   against it: only a toy",
        "   check it: ./faultline run toy/one --profile quick --seed 7 --again (about 3 min)",
    ]
    readme = (
        "a\n<!-- findings: made by ./faultline site --shipped -->\nold\n"
        "<!-- end of the findings -->\nb\n"
    )
    text = in_readme(readme, found, "site")
    assert "1. **How long?** It is 4.5 s (2 s to 7 s). *live, 6 passes: 95 % intervals*" in text
    assert "old" not in text
    assert text.startswith("a\n")
    assert text.endswith("\nb\n")
    assert b"a 2.25 (1 to 3.5)" in picture(found[0])
    assert in_words(found[0]) == "time [s]: a 2.25 (1 to 3.5): 4.5 s (2 s to 7 s)."


def test_the_first_page_has_at_most_seven_questions_about_figures_that_exist() -> None:
    assert len(QUESTIONS) <= 7
    for question in QUESTIONS:
        names = {name for part in question.parts if (name := getattr(part, "figure", ""))}
        figures = {each.id: each for each in find([*names])} if names else {}
        for claim in question.claims:
            figure, name = claim.rsplit("/", 1)
            assert name in {each.id for each in figures[figure].claims}, claim
