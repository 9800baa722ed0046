"""What happened around the kills of the shipped records."""

from __future__ import annotations

import pytest

from experiments.ppa.recovery_single import LIVE_EXPERIMENT as EXPERIMENT
from harness.pages.kills import FEW, Kill, kills_of
from harness.results.library import load

pytestmark = pytest.mark.slow


def many() -> Kill:
    """Return a kill of 15 nodes."""
    return next(
        kill
        for found in load(experiment=EXPERIMENT.id).found
        for kill in kills_of(found, EXPERIMENT)
        if len(kill.nodes.split(", ")) == 15 and len(kill.happenings) > 1
    )


def test_events_of_a_kind_have_one_line_with_the_time_of_each() -> None:
    kill = many()
    lines = {each.words.partition(",")[0]: each for each in kill.happenings}
    seen = lines["detected"]
    assert seen.words.startswith("detected, 15 times: ")
    for node in kill.nodes.split(", "):
        assert f"{node} (" in seen.words, "with its tasks"
    assert seen.until_s is not None
    assert 0 <= seen.at_s < seen.until_s
    assert seen.when.count(" to ") == 1
    assert len(kill.happenings) <= 1 + 4 * (FEW + 1), "kinds of events, not nodes"


def test_happenings_are_in_the_order_of_time() -> None:
    times = [each.at_s for each in many().happenings]
    assert times == sorted(times)
    assert times[0] == 0.0
