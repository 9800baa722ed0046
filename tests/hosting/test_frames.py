"""Frames between nodes: what is packed is unpacked, and bytes of another origin are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.hosting import frames
from harness.hosting.codec import CorruptData, Encoded
from harness.hosting.frames import (
    HEADER,
    Delivery,
    Hosts,
    pack_frames,
    pack_header,
    pack_hosts,
    pack_message,
    run_id,
    unpack_header,
    unpack_messages,
)
from harness.protocol import inputs as told
from tests.protocol.machines import arrived, requested

RUN = run_id("pass")
TABLE = pa.table({"word": ["a", "b"], "n": [1, 2]})


def batch(number: int = 3) -> told.BatchArrived:
    return arrived(
        cause="batch 3 of lines[0]", task=4, upstream=2, batch=number, stable=number % 2 == 1,
        payload=Encoded(TABLE), term=7,
    )  # fmt: skip


REQUEST = requested(cause="ä", task=2, downstream=4, asking=5, from_tentative=4, acknowledged=1)


def through(packed: list[bytes]) -> list[Delivery | Hosts]:
    """Return what comes out of the frames of these messages."""
    found = []
    for frame in pack_frames(RUN, 99, packed):
        header = unpack_header(frame)
        assert (header.run, header.sent_us) == (RUN, 99)
        assert header.length == len(frame) - HEADER.size
        found += unpack_messages(header, memoryview(frame)[HEADER.size :])
    return found


def test_messages_come_out_as_they_went_in() -> None:
    messages: list[tuple[int, int | None, told.TaskMessage]] = [
        (4, None, batch(3)),
        (4, 5, batch(8)),
        (2, None, REQUEST),
    ]
    found = through([*(pack_message(*one) for one in messages), pack_hosts(Hosts(2, ((1, 9),)))])
    assert [one[:3] for one in found[:3]] == messages
    assert found[3] == Hosts(2, ((1, 9),))


def test_long_frames_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "ENOUGH_BYTES", 1_500)
    packed = [pack_message(4, None, batch(number)) for number in range(7)]
    divided = pack_frames(RUN, 99, packed)
    assert 1 < len(divided) < 7
    assert [one.message.batch for one in through(packed)] == list(range(7))  # type: ignore[union-attr]


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 3))
def test_any_bytes_are_refused_or_messages(body: bytes, count: int) -> None:
    head = pack_header(RUN, 0, count, body)
    try:
        found = unpack_messages(unpack_header(head), memoryview(body))
    except CorruptData:
        return
    assert len(found) == count


@pytest.mark.parametrize("place", range(0, 300, 7))
def test_a_changed_byte_is_refused(place: int) -> None:
    (frame,) = pack_frames(RUN, 99, [pack_message(4, None, batch()), pack_message(2, 1, REQUEST)])
    bad = bytearray(frame)
    bad[place] ^= 0x55
    with pytest.raises(CorruptData):
        unpack_messages(unpack_header(bad), memoryview(bad)[HEADER.size :])


def test_a_length_beyond_the_limit_is_refused() -> None:
    with pytest.raises(CorruptData):
        unpack_header(pack_header(RUN, 0, 1, bytes(frames.MOST_FRAME_BYTES + 1)))
