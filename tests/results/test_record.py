"""Identity is a value, and every end of a run has a record of its own kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.results.record import (
    OK,
    Attempt,
    Outcome,
    Profile,
    Question,
    Record,
)
from harness.results.store import RecordStore
from tests.there import there

QUESTION = Question(
    experiment="stock/toy", profile="quick", root_seed=1, options={}, machine={"cores": 2}
)
GRID = [{"x": 1}, {"x": 2}]


def attempt(
    x: int = 1, *, code: str = "a", at: float = 1000.0, question: Question = QUESTION
) -> Attempt:
    return Attempt(
        question=question,
        point={"x": x},
        repeat=0,
        repeats=1,
        code=code,
        commit="c0ffee",
        versions={},
        started_unix_s=at,
    )


def test_a_record_names_the_engine_it_measured_and_so_does_its_campaign(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    measured = replace(QUESTION, backend="docker")
    for number, engine in enumerate(("tasks", "structured")):
        begun = replace(attempt(number + 1, at=1000.0 + number, question=measured), engine=engine)
        keep(store, Record.completed(begun, Outcome(values={"y": 1}), seconds=0))
    campaign = store.campaign(measured, "a", "here", 1, GRID)
    assert [record.engine for record in campaign.records] == ["tasks", "structured"]
    assert (campaign.engines, campaign.backends) == (["structured", "tasks"], ["docker"])


def test_what_an_older_record_does_not_name_was_not_recorded() -> None:
    old = replace(attempt(question=replace(QUESTION, backend="local")), versions={"java": "21.0.8"})
    stated = Record.completed(old, Outcome(), seconds=1).stated_versions
    unnamed = ("java_vendor", "kafka", "redis", "jars")
    assert stated == {"java": "21.0.8", **dict.fromkeys(unnamed, "not recorded")}
    computed = Record.completed(attempt(), Outcome(), seconds=1)
    assert computed.stated_versions == {}, "it had no servers"


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, root_seed=2),
        replace(QUESTION, profile="paper"),
        replace(QUESTION, options={"text": "a"}),
        replace(QUESTION, machine={"cores": 4}),
    ],
)
def test_another_question_is_another_campaign(other: Question) -> None:
    first = Record.failed(attempt(), "", seconds=0)
    second = Record.failed(attempt(question=other), "", seconds=0)
    assert first.question != second.question
    assert first.campaign != second.campaign


def keep(store: RecordStore, record: Record) -> None:
    store.append(record, store.scratch(), {"s": pd.DataFrame({"a": [1]})}, "here")


def test_one_question_asked_of_two_revisions(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    for number, (code, y) in enumerate([("old", 1), ("new", 3), ("old", 2)]):
        at = 1000.0 + number
        outcome = Outcome(values={"y": y})
        keep(store, Record.completed(attempt(code=code, at=at), outcome, seconds=0))
    another = attempt(code="new", at=2000.0, question=replace(QUESTION, root_seed=7))
    keep(store, Record.failed(another, "", seconds=0))
    campaigns = {code: store.campaign(QUESTION, code, "here", 1, GRID) for code in ("old", "new")}
    assert {code: c.results().frame["y"].tolist() for code, c in campaigns.items()} == {
        "old": [2],  # the newest of them
        "new": [3],
    }


def test_repetitions_that_are_there_count_beyond_the_number_asked_for(tmp_path: Path) -> None:
    store, (first, *_) = RecordStore(tmp_path), GRID
    for repeat in range(3):
        one = replace(attempt(at=1000.0 + repeat), repeat=repeat, point=dict(first))
        keep(store, Record.completed(one, Outcome(values={"y": repeat}), seconds=0))
    campaign = store.campaign(QUESTION, "a", "here", 1, [first])
    assert campaign.complete
    assert campaign.results().frame["y"].tolist() == [0, 1, 2]
    more = store.campaign(QUESTION, "a", "here", 5, [first])
    assert (len(more.records), more.expected) == (3, 5), "two are still to be made"


def test_a_failure_does_not_hide_what_was_settled(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    keep(store, Record.completed(attempt(), Outcome(values={"y": 1}), seconds=0))
    keep(store, Record.failed(attempt(at=1001.0), "the disk was full", seconds=0))
    campaign = there(store.newest_campaign("stock/toy", "here", Profile.QUICK, GRID))
    assert [record.status for record in campaign.records] == [OK]
