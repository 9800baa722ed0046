"""Values of results: one form for each type, and when two values are equal.

Sinks carry the same value in different forms: JSON has a decimal as a number or as text, a NaN as
text, and a date as text. Before results are compared, every column takes the form of its type: the
one that the workload declares (`workloads.base.Workload.types`), else the one of the ground truth.
Decimals are then equal by value at their scale, floating point within a relative tolerance, and
everything else exactly."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Types = Mapping[str, "pa.DataType"]


def demand_comparable(workload: str, column: str, kind: pa.DataType, *, identity: bool) -> None:
    """Raise `UsageError` if values of a type cannot be compared, or cannot identify a result."""
    from pyarrow import types

    why = _incomparable(kind)
    if why is not None:
        raise UsageError(
            f"workload {workload!r}: column {column!r} is {kind}, and {why[0]}", remedy=why[1]
        )
    if identity and (types.is_floating(kind) or not _is_plain(kind)):
        raise UsageError(
            f"workload {workload!r}: column {column!r} is {kind}, which cannot tell results apart",
            remedy=f"make {column} an integer, a decimal, a date or text, for example with "
            f"CAST({column} AS STRING), or name it in values instead of identity",
        )


def _incomparable(kind: pa.DataType) -> tuple[str, str] | None:
    """Why values of a type cannot be compared, and what to write instead."""
    from pyarrow import types

    if types.is_map(kind):
        return (
            "the entries of a map have no order",
            "write an array of structs in the order of its keys: array_sort(map_entries(...))",
        )
    parts: list[pa.DataType] = []
    if types.is_list(kind) or types.is_large_list(kind):
        parts = [kind.value_type]
    elif types.is_struct(kind):
        parts = [kind.field(number).type for number in range(kind.num_fields)]
    elif not _is_plain(kind):
        return (
            "values of this type cannot be compared",
            "write numbers, decimals, text, booleans, binary, dates, timestamps, arrays or structs",
        )
    return next((why for part in parts if (why := _incomparable(part)) is not None), None)


def _is_plain(kind: pa.DataType) -> bool:
    from pyarrow import types

    return any(
        check(kind)
        for check in (
            types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal,
            types.is_string, types.is_large_string, types.is_binary, types.is_large_binary,
            types.is_date, types.is_timestamp,
        )
    )  # fmt: skip


def read_json(values: Sequence[bytes], columns: Sequence[str]) -> pd.DataFrame:
    """Read JSON objects, a row each. No digit is lost: numbers with a fraction are `Decimal`.

    Raises `ValueError` if a column is in none of them: another query wrote them."""
    if not values:
        return pd.DataFrame(columns=list(columns))
    frame = _read_exact_types(values, columns)
    if frame is not None:
        return frame
    rows = [json.loads(value, parse_float=Decimal) for value in values]
    missing = sorted(set(columns) - {name for row in rows for name in row})
    if missing:
        raise ValueError(f"{len(values)} results gave {len(rows)} rows without {missing}")
    return pd.DataFrame({name: _series([row.get(name) for row in rows]) for name in columns})


def _read_exact_types(values: Sequence[bytes], columns: Sequence[str]) -> pd.DataFrame | None:
    """Read with Arrow, several times as fast; None if it would guess the type of a column.

    It reads fractions as doubles and takes text for times."""
    import pyarrow as pa
    import pyarrow.json
    from pyarrow import types

    options = pyarrow.json.ReadOptions(block_size=1 << 24)
    try:
        table = pyarrow.json.read_json(io.BytesIO(b"\n".join(values)), read_options=options)
    except pa.ArrowInvalid:  # the rows have unlike types
        return None
    if len(table) != len(values) or not set(columns) <= set(table.column_names):
        return None
    exact = (types.is_integer, types.is_boolean, types.is_string, types.is_null)
    table = table.select(list(columns))
    if not all(any(check(kind) for check in exact) for kind in table.schema.types):
        return None
    return from_arrow(table)


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """Return the table as a frame in which a null stays a null.

    In a column of numbers pandas alone makes NaNs of nulls, and doubles of integers."""
    from pyarrow import types

    frame: pd.DataFrame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        number = types.is_integer(column.type) or types.is_floating(column.type)
        if (number and column.null_count) or types.is_nested(column.type):
            frame[name] = pd.Series(column.to_pylist(), dtype=object, index=frame.index)
    return frame


def types_of(truth: pd.DataFrame, columns: Iterable[str], declared: Types) -> Types:
    """Return the types of the columns: declared ones, else those of the ground truth."""
    found = dict(declared)
    for name in columns:
        if name not in found and name in truth and truth[name].dtype.kind in "OfM":
            kind = _inferred(truth[name])
            if kind is not None:
                found[name] = kind
    return found


def _inferred(column: pd.Series[Any]) -> pa.DataType | None:
    import pyarrow as pa

    try:
        kind = pa.array(column.tolist(), from_pandas=False).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None  # values of unlike types are compared as they are
    return None if pa.types.is_null(kind) else kind


def normalized(frame: pd.DataFrame, types: Types) -> pd.DataFrame:
    """Return the frame with each of these columns in the form of its type."""
    forms = {
        name: form
        for name, kind in types.items()
        if name in frame and (form := _form(kind)) is not None
    }
    changed = {
        name: _series([None if _is_null(value) else form(value) for value in frame[name].tolist()])
        for name, form in forms.items()
        if frame[name].dtype.kind != "f" or form is not float
    }
    return frame.assign(**{n: s.set_axis(frame.index) for n, s in changed.items()})


def _series(values: list[Any]) -> pd.Series[Any]:
    """Return a series in which no null becomes a NaN and no integer a double."""
    series = pd.Series(values, dtype=object)
    return series if any(value is None for value in values) else series.infer_objects()


def _form(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the function that brings a value of a type into one form; None if it always has it."""
    from pyarrow import types

    if types.is_floating(kind):
        return float
    if types.is_decimal(kind):
        return lambda value: _to_decimal(value, kind.scale)
    if types.is_timestamp(kind):
        return _to_us
    if types.is_date(kind):
        return lambda value: str(value)[:10]
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda value: base64.b64decode(value) if isinstance(value, str) else bytes(value)
    if types.is_list(kind) or types.is_large_list(kind):
        item = _nullable(_form(kind.value_type))
        return lambda value: [item(one) for one in value]
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        forms = {field.name: _nullable(_form(field.type)) for field in fields}
        return lambda value: {name: form(value.get(name)) for name, form in forms.items()}
    return None


def _nullable(form: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return lambda value: None if _is_null(value) else value if form is None else form(value)


_ALL_DIGITS = Context(prec=100)
"""More digits than any type has; Python's own context keeps 28."""


def _to_decimal(value: Any, scale: int) -> Any:
    """Return the decimal at the scale of its type, or with all of its digits if it has more."""
    try:
        exact = _decimal(value)
        rounded = exact.quantize(Decimal(1).scaleb(-scale), context=_ALL_DIGITS)
    except InvalidOperation:
        return value
    return rounded if rounded == exact else exact


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _to_us(value: Any) -> Any:
    """Return microseconds since the epoch; a number is milliseconds, no zone is UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return int(value) * 1000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _is_null(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT


def identities(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return a number per row of each frame, the same where rows agree in all of these columns.

    Null is a value like any other: pandas leaves it out when it groups, and takes text that
    differs after a NUL character for equal."""
    rows = sum(len(frame) for frame in frames)
    found = np.zeros(rows, dtype=np.int64)
    for column in columns:
        own = _codes([frame[column] for frame in frames])
        found = pd.factorize(found * (1 + own.max(initial=0)) + own)[0].astype(np.int64)
    return np.split(found, np.cumsum([len(frame) for frame in frames])[:-1])


def _codes(parts: Sequence[pd.Series[Any]]) -> NDArray[np.int64]:
    """Return a number per value of these columns together, in the order of their appearance."""
    if all(part.dtype == parts[0].dtype and part.dtype.kind in "iufb" for part in parts):
        values = np.concatenate([part.to_numpy() for part in parts])
        return pd.factorize(values, use_na_sentinel=False)[0].astype(np.int64)
    seen: dict[Hashable, int] = {}
    numbers = [seen.setdefault(_known(v), len(seen)) for part in parts for v in part.tolist()]
    return np.array(numbers, dtype=np.int64)


def _known(value: Any) -> Hashable:
    """Return the value, or None for each form of a null: pandas makes NaN of some."""
    return None if _is_null(value) or value != value else value


def differs(one: pd.Series[Any], other: pd.Series[Any], tolerance: float) -> NDArray[np.bool_]:
    """Return True where values at the same place are not equal.

    Floating point is equal within a relative ``tolerance``. NaN equals NaN and null equals null,
    but neither equals the other."""
    left, right = one.to_numpy(), other.to_numpy()
    if left.dtype.kind in "iub" and right.dtype.kind in "iub":
        return np.asarray(left != right)
    if left.dtype.kind == right.dtype.kind == "f":
        largest = np.maximum(np.abs(left), np.abs(right))
        with np.errstate(invalid="ignore"):
            close = (np.abs(left - right) <= tolerance * largest) & np.isfinite(largest)
        return np.asarray(~(close | (left == right) | (np.isnan(left) & np.isnan(right))))
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return np.fromiter((not equal(*pair, tolerance) for pair in pairs), dtype=bool, count=len(one))


def equal(one: Any, other: Any, tolerance: float) -> bool:
    """Return True if two values are equal, part by part if they have parts."""
    if _is_null(one) or _is_null(other):
        return _is_null(one) and _is_null(other)
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        names = one.keys()
        return names == other.keys() and all(equal(one[n], other[n], tolerance) for n in names)
    if isinstance(one, _ARRAYS) and isinstance(other, _ARRAYS):
        return len(one) == len(other) and all(
            equal(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, Decimal) != isinstance(other, Decimal) and isinstance(
        other if isinstance(one, Decimal) else one, float
    ):
        return _decimal(one) == _decimal(other)
    return bool(one == other)


_ARRAYS = (list, tuple, np.ndarray)
