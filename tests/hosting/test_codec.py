"""Values that cross a process boundary are unchanged, or refused."""

from __future__ import annotations

import types
from decimal import Decimal
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.hosting.codec import KINDS, CorruptData, Encoded, decode, encode, from_parts, to_parts
from harness.protocol.inputs import Checkpoint
from harness.protocol.scheme import Scheme
from harness.protocol.schemes import SCHEMES
from harness.protocol.wiring import Wiring
from harness.simulator.draw import draw
from tests.levels import amount
from tests.protocol.machines import arrived

COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.timestamp("us"): st.integers(-(2**62), 2**62),
    pa.bool_(): st.booleans(),
    pa.decimal128(10, 2): st.integers(-999, 999).map(Decimal),
    pa.list_(pa.int32()): st.lists(st.integers(0, 9), max_size=3),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw tables of any columns, with gaps, in several chunks, or a slice of a longer one."""
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    rows = draw(st.integers(0, 6))
    columns = [
        pa.array(draw(st.lists(st.none() | COLUMNS[kind], min_size=rows, max_size=rows)), kind)
        for kind in kinds
    ]
    table = pa.table(columns, [f"c{i}" for i in range(len(kinds))])
    if draw(st.booleans()):
        table = pa.concat_tables([table, table])
    first = draw(st.integers(0, table.num_rows))
    return table.slice(first, draw(st.integers(0, table.num_rows)))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.decimals(allow_nan=False)
)
ANYTHING = st.recursive(
    SCALARS | tables(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=6,
)


def anything_like(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of an annotation, found without the codec."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([anything_like(kind) for kind in arguments])
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return st.lists(anything_like(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(anything_like(kind) for kind in arguments))
    if hint in (Any, object):
        return ANYTHING
    if hint is type(None):
        return st.none()
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if hint in (int, str, bool):
        return {int: st.integers(), str: st.text(max_size=9), bool: st.booleans()}[hint]
    return values_of(hint)


def values_of(kind: type) -> st.SearchStrategy[Any]:
    fields = {name: anything_like(hint) for name, hint in get_type_hints(kind).items()}
    return st.builds(kind, **fields)


CHECKED_WHEN_MADE = {"Scheme", "Tentative", "Wiring"}
"""Their constructors refuse most of what an annotation allows; they have a test of their own."""


@pytest.mark.parametrize("kind", [k for k in KINDS.values() if k.__name__ not in CHECKED_WHEN_MADE])
def test_every_value_of_the_protocol_comes_back_as_it_was(kind: type) -> None:
    @settings(max_examples=12, deadline=None)
    @given(values_of(kind))
    def comes_back(value: Any) -> None:
        again = decode(encode(value))
        assert type(again) is kind
        assert again == value
        assert encode(again) == encode(value)

    comes_back()


@settings(max_examples=amount(200), deadline=None)
@given(ANYTHING)
def test_every_payload_and_state_comes_back_as_it_was(value: Any) -> None:
    again = decode(encode(value))
    assert type(again) is type(value)
    assert again == value


def test_schemes_and_wirings_come_back_as_they_were() -> None:
    for seed, name in enumerate(SCHEMES):
        options = draw(seed, scheme=name)
        for value in (options.scheme, options.wiring, options.nodes):
            assert decode(encode(value)) == value
    assert isinstance(decode(encode(options.scheme)), Scheme)
    assert isinstance(decode(encode(options.wiring)), Wiring)


def test_a_dictionary_column_keeps_its_dictionary() -> None:
    words = pa.array(["b", "a", "b"]).dictionary_encode()
    table = pa.table({"word": words, "count": [1, 2, 3]})
    again = decode(encode((table, 1)))
    assert again == (table, 1)
    assert again[0].schema.field("word").type == words.type


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3).T, np.array([0.5, np.nan]), np.array([], dtype=np.int32)]
)
def test_arrays_come_back_with_type_and_shape(array: np.ndarray[Any, Any]) -> None:
    (again,) = decode(encode([array]))
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert np.array_equal(again, array, equal_nan=array.dtype.kind == "f")


def test_a_payload_is_encoded_once_for_whatever_carries_it() -> None:
    payload = Encoded(pa.table({"n": list(range(1000))}))
    head, (part,) = to_parts(arrived(payload=payload))
    assert part is payload.data
    assert len(head) < 200
    stored = Checkpoint(
        task=1,
        position=8,
        state=None,
        outputs=((7, (payload, payload)),),
        acknowledged=(0,),
        term=3,
    )
    _, parts = to_parts(stored)
    assert all(part is payload.data for part in parts)
    again = from_parts(head, [part])
    assert (again, again.payload.data) == (arrived(payload=payload), payload.data)
    assert again.payload.value == pa.table({"n": list(range(1000))})
    assert decode(encode(stored)) == stored


def test_an_empty_table_is_encoded_once_per_schema() -> None:
    first, second = (pa.table({"n": pa.array([], pa.int64())}) for _ in range(2))
    assert encode(first) is encode(second)
    assert decode(encode(first)) is decode(encode(second))


@pytest.mark.parametrize("value", [object(), {1, 2}, arrived, range(3), [np.array([object()])]])
def test_what_has_no_wire_format_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="cannot cross a process boundary"):
        encode(value)


FRAMES = [encode(arrived(payload=(1, "two"))), encode(pa.table({"n": [1, 2, 3]})), encode(None)]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_damaged_frame_is_refused_wherever_it_is_damaged(frame: bytes) -> None:
    for place in range(len(frame)):
        damaged = bytearray(frame)
        damaged[place] ^= 0x41
        with pytest.raises(CorruptData):
            decode(bytes(damaged))
        with pytest.raises(CorruptData):
            decode(frame[:place])
    with pytest.raises(CorruptData, match="checksum"):
        decode(frame + b"\0" * 8)


@given(st.binary(max_size=64))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode(data)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"[", "Expecting value"),
        (b'{"task":1}', "without the name"),
        (b'["Checkpointed",{}]', "Checkpointed"),
        (b'["BatchesAcknowledged",{"cause":"c","task":1}]', "fields of a BatchesAcknowledged"),
        (b'["EpochCompleted",{"cause":"c","task":true,"incarnation":1,"position":1}]', "a int is"),
        (b'["OutputRecord",{"kind":"final","batch":1,"payload":null}]', "final"),
        (b'["table",0]', "part 0 of 0"),
        (b'["bytes",-1]', "part -1"),
        (b'["decimal","one"]', "Invalid"),
        ("é".encode(), "ascii"),
        (b"[" * 100_000, "Recursion"),
    ],
)
def test_a_head_that_says_something_else_is_refused(head: bytes, words: str) -> None:
    with pytest.raises(CorruptData, match=words):
        from_parts(head)
