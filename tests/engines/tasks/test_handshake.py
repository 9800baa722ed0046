"""The proof of both ends of a connection, step by step."""

from __future__ import annotations

import pytest

from harness.engines.tasks.handshake import Handshake, Refused

SECRET = b"known to both"


def ends(dialer: bytes = SECRET, listener: bytes = SECRET) -> tuple[Handshake, Handshake]:
    return Handshake(dialer, (3, 7), dialed=True), Handshake(listener, (4, 9), dialed=False)


def test_both_ends_learn_who_the_other_is() -> None:
    dialer, listener = ends()
    assert dialer.greeting == b""
    assert dialer.take(listener.take(dialer.take(listener.greeting))) == b""
    assert (dialer.peer, listener.peer) == ((4, 9), (3, 7))


def test_who_does_not_know_the_secret_is_refused_by_either_end() -> None:
    dialer, listener = ends(dialer=b"invented")
    with pytest.raises(Refused, match="does not know this run's secret"):
        listener.take(dialer.take(listener.greeting))
    dialer, listener = ends(listener=b"invented")
    honest = Handshake(b"invented", (3, 7), dialed=True)
    answer = listener.take(honest.take(listener.greeting))
    dialer.take(listener.greeting)
    with pytest.raises(Refused):
        dialer.take(answer)


def test_a_proof_can_be_neither_repeated_nor_reflected() -> None:
    dialer, listener = ends()
    answer = dialer.take(listener.greeting)
    with pytest.raises(Refused):
        ends()[1].take(answer)
    proof = listener.take(answer)
    again, _ = ends()
    again.take(ends()[1].greeting)
    with pytest.raises(Refused):
        again.take(proof)


@pytest.mark.parametrize("place", [0, 5, 40, -1])
def test_a_step_with_a_wrong_bit_is_refused(place: int) -> None:
    dialer, listener = ends()
    step = bytearray(dialer.take(listener.greeting))
    step[place] ^= 1
    with pytest.raises(Refused):
        listener.take(bytes(step))
