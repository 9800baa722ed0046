"""Every scheme is made by its name, and refuses useless options."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.protocol.scheme import Closing, Policy, Recovery, Scheme, Tentative
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


def test_what_a_scheme_has_no_use_for_is_refused() -> None:
    with pytest.raises(UsageError, match="active has replicas of all tasks"):
        make_scheme("active", WIRING, plan=(1,))
    with pytest.raises(UsageError, match="checkpoint gives no tentative output"):
        make_scheme("checkpoint", WIRING, tentative=Tentative())
    with pytest.raises(UsageError, match="no scheme 'actve'"):
        make_scheme("actve", WIRING)
    with pytest.raises(UsageError, match="names task 9 of 4"):
        make_scheme("ppa", WIRING, plan=(9,))


def test_buffers_that_cannot_fill_an_empty_state_are_refused() -> None:
    wiring = chain(3, memory=4)
    rules = Tentative(converges=True)
    with pytest.raises(UsageError, match="4 batches to fill an empty state"):
        make_scheme("dpc", wiring, checkpoint_every=5, window=9, tentative=rules)
