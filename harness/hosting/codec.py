"""The only wire format: everything that crosses a process boundary, to bytes and back.

`encode` takes what the protocol knows (messages, orders, heartbeats, checkpoints, the registry,
records of output) and what operators make (payloads and states: Arrow tables, numpy arrays, and
tuples, lists, dictionaries, numbers, texts and bytes of them). What is small is JSON; tables,
arrays and bytes are *parts* that the JSON counts. Nothing is pickled, so bytes from outside can
at worst be refused.

A frame is (all numbers little-endian, everything but the first 16 bytes aligned to 8)::

    magic   4 bytes   "FLV1" a value, "FLT1" a table, "FLD1" a table with dictionaries
    crc32   4 bytes   of everything behind it
    head    4 bytes   its length
    count   4 bytes   of parts, then the length of each in 8 bytes
    head, then the parts

=====  ===========================================  ===========================================
magic  head                                         parts
=====  ===========================================  ===========================================
FLV1   JSON; ``["table", 0]`` is the first part     frames of tables, raw arrays and bytes
FLT1   the schema                                   Arrow record batches, none for no rows
FLD1   nothing                                      one Arrow IPC stream
=====  ===========================================  ===========================================

A record batch without its stream costs a third to write, so the schema goes beside it; schemas
and empty tables are encoded once per process. `Encoded` is a payload that is encoded at most
once: what is sent, kept in an outbox and stored in a checkpoint are the same bytes.

Raises `CorruptData` for bytes that no `encode` made, and `UsageError` for values it cannot take."""

from __future__ import annotations

import json
import math
import struct
import types
import zlib
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache, lru_cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa

from harness.errors import EnvironmentFailure, UsageError
from harness.protocol import effects, inputs, output, scheme, wiring
from harness.protocol.coordinator import registry
from harness.protocol.operators import Payload

VALUE, TABLE, DICTIONARIES = b"FLV1", b"FLT1", b"FLD1"
_START = struct.Struct("<4sI")
_SIZES = struct.Struct("<II")
_PADDING = (b"", *(b"\0" * (8 - n) for n in range(1, 8)))
_DUMP = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_LOAD = json.JSONDecoder().decode

Json = Any
Parts = Sequence[memoryview | bytes]


class CorruptData(EnvironmentFailure):
    """Bytes that are not a frame, or not one that this version writes."""

    def __init__(
        self,
        what: str,
        *,
        remedy: str = "check that all processes of the run have the same version of Faultline, "
        "and that nobody else writes to its topics and keys",
    ) -> None:
        super().__init__(what, remedy=remedy)


class Encoded:
    """A payload that holds its value or its bytes, and converts them on first use.

    A host puts outputs into it and takes inputs out of it, so the protocol passes it on and never
    looks inside."""

    __slots__ = ("_data", "_value")

    def __init__(self, value: Payload = None, *, data: bytes | None = None) -> None:
        """Hold a value of this process, or the bytes of another one."""
        assert value is None or data is None, "a payload holds its value or its bytes"
        self._value = value
        self._data = data

    @property
    def data(self) -> bytes:
        """The bytes, always the same object; the value is not kept with them."""
        if self._data is None:
            self._data = encode(self._value)
            self._value = None
        return self._data

    @property
    def value(self) -> Payload:
        """The payload; a table read from bytes shares their memory."""
        value, data = self._value, self._data
        return value if data is None else decode(data)

    @property
    def nbytes(self) -> int:
        """About the length of the bytes, which are not made for it."""
        return len(self._data) if self._data is not None else getattr(self._value, "nbytes", 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoded) and bool(self.data == other.data)

    __hash__ = None  # type: ignore[assignment]  # equal by content, which is never hashed

    def __repr__(self) -> str:
        if self._data is None:
            return f"<{type(self._value).__name__}, not encoded yet>"
        return f"<{len(self._data)} bytes>"


def encode(value: Any) -> bytes:
    """Return ``value`` as one frame."""
    if type(value) is pa.Table:
        return _encode_table(value)
    return _frame(VALUE, *to_parts(value))


def decode(data: bytes | memoryview) -> Any:
    """Return the value of a frame; tables and arrays share the memory of ``data``."""
    magic, head, parts = _unframe(data)
    if magic == VALUE:
        return from_parts(head, parts)
    return _decode_table(magic, head, parts)


def to_parts(value: Any) -> tuple[bytes, list[bytes]]:
    """Return the JSON of ``value`` (ASCII, one line), and the parts that it counts.

    For carriers that have room for both: a message with a payload has one part, an order, a
    heartbeat or the registry has none."""
    parts: list[bytes] = []
    return _DUMP(_write_any(value, parts)).encode("ascii"), parts


def from_parts(head: bytes | memoryview | str, parts: Parts = ()) -> Any:
    """Return the value of this JSON and these parts."""
    try:
        text = head if isinstance(head, str) else bytes(head).decode("ascii")
        return _read_any(_LOAD(text), parts)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, InvalidOperation) as error:
        raise CorruptData(f"{type(error).__name__}: {error}") from error


# -- frames --------------------------------------------------------------------------------


def _frame(magic: bytes, head: bytes, parts: Sequence[bytes | pa.Buffer]) -> bytes:
    pieces: list[bytes | pa.Buffer] = [_SIZES.pack(len(head), len(parts))]
    if parts:
        pieces.append(struct.pack(f"<{len(parts)}Q", *map(len, parts)))
    for piece in (head, *parts):
        pieces += (piece, _PADDING[len(piece) % 8])
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return b"".join((_START.pack(magic, crc), *pieces))


def _unframe(data: bytes | memoryview) -> tuple[bytes, memoryview, list[memoryview]]:
    view = memoryview(data)
    at = _START.size + _SIZES.size
    if len(view) < at:
        raise CorruptData(f"{len(view)} bytes are no frame")
    magic, crc = _START.unpack_from(view)
    if magic not in (VALUE, TABLE, DICTIONARIES):
        raise CorruptData(f"a frame does not begin with {magic!r}")
    if zlib.crc32(view[_START.size :]) != crc:
        raise CorruptData(f"the checksum of {len(view)} bytes is wrong")
    head, count = _SIZES.unpack_from(view, _START.size)
    try:
        lengths = struct.unpack_from(f"<{count}Q", view, at)
    except struct.error as error:
        raise CorruptData(f"{len(view)} bytes for {count} parts") from error
    at += 8 * count
    found: list[memoryview] = []
    for length in (head, *lengths):
        found.append(view[at : at + length])
        at += length + -length % 8
    if at != len(view):
        raise CorruptData(f"{len(view)} bytes where {at} are announced")
    return magic, found[0], found[1:]


# -- tables --------------------------------------------------------------------------------


def _encode_table(table: pa.Table) -> bytes:
    schema = table.schema
    if not table.num_rows:
        return _empty_frame(schema)
    head = _schema_bytes(schema)
    if head is None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(table)
        return _frame(DICTIONARIES, b"", [sink.getvalue()])
    batches = table.combine_chunks().to_batches()
    return _frame(TABLE, head, [batch.serialize() for batch in batches])


@lru_cache(maxsize=1024)
def _empty_frame(schema: pa.Schema) -> bytes:
    head = schema.remove_metadata().serialize().to_pybytes()
    return _frame(TABLE, head, [])


@lru_cache(maxsize=1024)
def _schema_bytes(schema: pa.Schema) -> bytes | None:
    """Return the schema without metadata, which equality of tables ignores.

    None if a record batch is not enough because dictionaries would have to go with it."""
    if any(_has_dictionary(field.type) for field in schema):
        return None
    data: bytes = schema.remove_metadata().serialize().to_pybytes()
    return data


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


@lru_cache(maxsize=1024)
def _schema_of(data: bytes) -> tuple[pa.Schema, pa.Table]:
    """Return a schema, and the table without rows that all of its empty batches are."""
    schema = pa.ipc.read_schema(pa.py_buffer(data))
    return schema, schema.empty_table()


def _decode_table(magic: bytes, head: memoryview, parts: Parts) -> pa.Table:
    try:
        if magic == DICTIONARIES:
            (stream,) = parts
            return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        schema, empty = _schema_of(bytes(head))
        if not parts:
            return empty
        batches = [pa.ipc.read_record_batch(pa.py_buffer(part), schema) for part in parts]
        return pa.Table.from_batches(batches, schema)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise CorruptData(f"no table of Arrow's: {error}") from error


# -- values of any type --------------------------------------------------------------------


def _write_any(value: Any, parts: list[bytes]) -> Json:
    """Scalars are themselves, everything else a list that begins with the name of its type."""
    kind = type(value)
    if value is None or kind is int or kind is str or kind is bool:
        return value
    if kind is Encoded:
        return _part("encoded", value.data, parts)
    if kind is tuple or kind is list:
        return [kind.__name__, *(_write_any(item, parts) for item in value)]
    if kind is dict:
        pairs = ([_write_any(k, parts), _write_any(v, parts)] for k, v in value.items())
        return ["dict", *pairs]
    if kind is pa.Table:
        return _part("table", _encode_table(value), parts)
    if kind is bytes:
        return _part("bytes", value, parts)
    if kind is float:
        return value if math.isfinite(value) else ["float", repr(value)]
    if kind is Decimal:
        return ["decimal", str(value)]
    if kind is np.ndarray and value.dtype.kind in "biufmM":
        place = _part("array", np.ascontiguousarray(value).tobytes(), parts)
        return [*place, value.dtype.str, list(value.shape)]
    if kind in _CLASSES and kind.__name__ in KINDS:
        return [kind.__name__, _shape(kind).write(value, parts)]
    raise UsageError(
        f"a value of type {kind.__module__}.{kind.__name__} cannot cross a process boundary",
        remedy="make payloads and states of Arrow tables, numpy arrays, and tuples, lists, "
        "dictionaries, numbers, texts or bytes of them",
    )


def _part(name: str, data: bytes, parts: list[bytes]) -> Json:
    assert isinstance(data, bytes), f"a part of type {type(data).__name__}"
    parts.append(data)
    return [name, len(parts) - 1]


def _read_any(value: Json, parts: Parts) -> Any:
    if type(value) is not list:
        if type(value) is dict:
            raise CorruptData("an object without the name of its type")
        return value
    name, *rest = value
    match name:
        case "tuple":
            return tuple([_read_any(item, parts) for item in rest])
        case "list":
            return [_read_any(item, parts) for item in rest]
        case "dict":
            return {_read_any(k, parts): _read_any(v, parts) for k, v in rest}
        case "encoded":
            return Encoded(data=bytes(_at(parts, *rest)))
        case "table":
            return _decode_table(*_unframe(memoryview(_at(parts, *rest))))
        case "bytes":
            return bytes(_at(parts, *rest))
        case "float":
            return float(*rest)
        case "decimal":
            return Decimal(*rest)
        case "array":
            number, kind, shape = rest
            return np.frombuffer(_at(parts, number), dtype=np.dtype(kind)).reshape(shape)
    (document,) = rest
    return _shape(KINDS[name]).read(document, parts)


def _at(parts: Parts, number: int) -> memoryview | bytes:
    if type(number) is not int or not 0 <= number < len(parts):
        raise CorruptData(f"part {number} of {len(parts)}")
    return parts[number]


# -- values of a known type: the protocol's own --------------------------------------------


class Shape(NamedTuple):
    """The two functions that convert values of one annotation to JSON and parts, and back."""

    write: Callable[[Any, list[bytes]], Json]
    read: Callable[[Json, Parts], Any]


_CLASSES = {
    kind
    for module in (inputs, effects, output, registry, scheme, wiring)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__
    if is_dataclass(kind) or issubclass(kind, msgspec.Struct)
}
KINDS: dict[str, type] = {
    kind.__name__: kind for kind in sorted(_CLASSES, key=lambda kind: kind.__name__)
}
"""Every value of the protocol that may cross a process boundary, by its name."""


@cache
def _shape(hint: Any) -> Shape:
    """Return the shape for an annotation; resolved once per annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        rest = [kind for kind in arguments if kind is not type(None)]
        return _optional(_shape(rest[0])) if len(rest) == 1 else ANY
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _row(_shape(arguments[0]))
        return _record([_shape(kind) for kind in arguments])
    if hint in (int, str, bool):
        return _scalar(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Shape(lambda value, _: value.value, lambda value, _: hint(value))
    if hint in _CLASSES:
        return _fields(hint)
    assert hint in (Any, object), f"no wire format for {hint}"
    return ANY


def _scalar(kind: type) -> Shape:
    def read(value: Json, _: Parts) -> Any:
        if type(value) is not kind:
            raise CorruptData(f"{value!r} where a {kind.__name__} is due")
        return value

    return Shape(lambda value, _: value, read)


def _optional(inner: Shape) -> Shape:
    return Shape(
        lambda value, parts: None if value is None else inner.write(value, parts),
        lambda value, parts: None if value is None else inner.read(value, parts),
    )


def _row(inner: Shape) -> Shape:
    write, read = inner
    return Shape(
        lambda value, parts: [write(item, parts) for item in value],
        lambda value, parts: tuple([read(item, parts) for item in _list(value)]),
    )


def _record(inner: Sequence[Shape]) -> Shape:
    return Shape(
        lambda value, parts: [s.write(item, parts) for s, item in zip(inner, value, strict=True)],
        lambda value, parts: tuple(
            s.read(item, parts) for s, item in zip(inner, _list(value), strict=True)
        ),
    )


def _list(value: Json) -> list[Json]:
    if type(value) is not list:
        raise CorruptData(f"{value!r} where a list is due")
    return value


def _fields(kind: type) -> Shape:
    shapes = {name: _shape(hint) for name, hint in get_type_hints(kind).items()}

    def write(value: Any, parts: list[bytes]) -> Json:
        return {name: shape.write(getattr(value, name), parts) for name, shape in shapes.items()}

    def read(value: Json, parts: Parts) -> Any:
        if type(value) is not dict or value.keys() != shapes.keys():
            raise CorruptData(f"{value!r:.200} where the fields of a {kind.__name__} are due")
        return kind(**{name: shape.read(value[name], parts) for name, shape in shapes.items()})

    return Shape(write, read)


ANY = Shape(_write_any, _read_any)
