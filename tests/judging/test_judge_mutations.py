"""Every deliberate mistake in the judging code is found by the test named for it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.judging.judge_mutations import MUTATIONS, Mutation
from tests.measure.test_collector import client as _client

client = _client
pytestmark = pytest.mark.slow


@pytest.fixture
def fixtures(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Return the fixtures of the test that must catch a mutation."""
    mutation: Mutation = request.getfixturevalue("mutation")
    wanted = inspect.signature(mutation.caught_by).parameters
    return {
        name: tmp_path if name == "tmp_path" else request.getfixturevalue(name) for name in wanted
    }


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_mistake_is_caught(mutation: Mutation, fixtures: dict[str, object]) -> None:
    with mutation.applied(), pytest.raises((AssertionError, pytest.fail.Exception)):
        mutation.caught_by(**fixtures)


def test_what_is_right_again_afterwards() -> None:
    """A mutation leaves nothing behind."""
    for test in dict.fromkeys(mutation.caught_by for mutation in MUTATIONS):
        if not inspect.signature(test).parameters:
            test()
