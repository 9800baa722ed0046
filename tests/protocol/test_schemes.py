"""Every scheme is made by its name, and refuses useless options."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.protocol.scheme import Closing, Method, Policy, Recovery, Scheme, Tentative
from harness.protocol.schemes import SCHEMES, Replicas, make_scheme
from harness.simulator.topologies import chain

WIRING = chain(3)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_made_by_its_name(name: str) -> None:
    kind = SCHEMES[name]
    plan = (1, 2) if kind.replicas is Replicas.PLANNED else ()
    scheme = make_scheme(name, WIRING, plan=plan, heartbeat_us=250_000)
    assert isinstance(scheme, Scheme)
    assert (scheme.name, scheme.recovery, scheme.heartbeat_us) == (name, kind.recovery, 250_000)
    assert scheme.replicated == (tuple(WIRING.tasks) if kind.replicas is Replicas.ALL else plan)
    assert (scheme.checkpoint_every == 0) is (kind.recovery is Recovery.REPLAY)
    closing = scheme.tentative.closing if scheme.tentative is not None else None
    assert closing is kind.closing


def test_a_scheme_decides_itself_who_closes() -> None:
    rules = Tentative(closing=Closing.COORDINATOR, during_failure=Policy.DELAY)
    scheme = make_scheme("dpc", WIRING, tentative=rules)
    assert scheme.tentative == Tentative(closing=Closing.TASK, during_failure=Policy.DELAY)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("actve", {}, "no scheme 'actve'"),
        ("active", {"plan": (1,)}, "active has replicas of all tasks"),
        ("checkpoint", {"tentative": Tentative()}, "checkpoint gives no tentative output"),
        ("ppa", {"plan": (9,)}, "names task 9 of 4"),
        ("ppa", {"plan": (2, 1)}, "ascending"),
        ("ppa", {"checkpoint_every": 0}, "checkpoint every 0"),
        ("ppa", {"window": 3}, "from one checkpoint to the next"),
        ("ppa", {"suspect_after_us": 1}, "suspicion"),
        ("dpc", {"window": 8, "tentative": Tentative(converges=True)}, "3 batches to fill"),
    ],
)
def test_what_a_scheme_has_no_use_for_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_scheme(name, WIRING, **options)


@pytest.mark.parametrize("options", [{"replicated": (1,)}, {"tentative": Tentative()}])
def test_replicas_and_tentative_output_need_tasks_that_recover_one_by_one(
    options: dict[str, Any],
) -> None:
    with pytest.raises(UsageError, match="one by one"):
        Scheme(name="test", recovery=Recovery.GLOBAL, checkpoint_every=3, **options)


def test_an_interval_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="every -1 µs"):
        Tentative(method=Method.UNDO, interval_us=-1)
