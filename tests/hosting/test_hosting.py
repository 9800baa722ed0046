"""One table has the host's work for each effect, with the answers that the effect names."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from harness.hosting.answers import EFFECTS
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Method
from harness.simulator.draw import draw
from harness.simulator.synthetic import digests
from harness.simulator.world import World
from tests.protocol.coordinator.test_failures import Poisoned

CAUSE = "test"


def test_the_table_knows_every_effect() -> None:
    assert set(EFFECTS) == set(get_args(do.Effect))


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_an_effect_says_what_may_answer_it(kind: type) -> None:
    _, _, words = " ".join((kind.__doc__ or "").split()).partition("nswered by")
    said = {name for name in re.findall(r"`(\w+)`", words) if hasattr(told, name)}
    assert said == {answer.__name__ for answer in EFFECTS[kind].answers}


def test_the_simulator_does_every_effect_of_a_node() -> None:
    of_nodes = set(get_args(do.TaskEffect)) | {do.SendHeartbeat}
    assert of_nodes <= set(World(draw(0), digests(draw(0)))._performers)


def perform(effect: do.Effect, server: object) -> told.Input:
    deed = EFFECTS[type(effect)]
    assert deed.perform is not None
    answer = deed.perform(effect, server)
    assert type(answer) in deed.answers
    return answer  # type: ignore[no-any-return]


def test_an_operator_that_raises_is_an_answer_and_no_crash() -> None:
    operator = Poisoned(task=1, memory=3, fan_out=1)
    effect = do.ProcessBatch(
        cause=CAUSE, task=1, incarnation=1, run=told.Run.TENTATIVE, ticket=2, batch=7, state=(),
        inputs=((1, 1),), copies_state=False,
    )  # fmt: skip
    answer = perform(effect, operator)
    assert isinstance(answer, told.BatchFailed)
    assert (answer.run, answer.ticket, answer.batch) == (told.Run.TENTATIVE, 2, 7)
    assert answer.error.endswith("ValueError: no such word\n")
    again = do.RebuildState(
        cause=CAUSE, task=1, incarnation=1, ticket=4, method=Method.CHECKPOINT, state=(),
        first_batch=6, inputs=(((1, 1),), ((1, 2),)), undone=0,
    )  # fmt: skip
    answer = perform(again, operator)
    assert isinstance(answer, told.BatchFailed)
    assert (answer.run, answer.batch) == (told.Run.STABLE, 7)
