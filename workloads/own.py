"""A workload in a file of the user's own: loaded, and checked before anything starts.

Other processes ask a generator again, so its records must depend on its parameters alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.text import did_you_mean
from workloads import packages
from workloads.base import (
    TASKS,
    HeadedSource,
    RecordedSource,
    RecordSource,
    Reference,
    Source,
    Workload,
)
from workloads.files import load_file

ASKED, FROM, PART = 40, 10, 20
"""Records that are compared, and the part of them that is requested a second time."""


def load_workload_file(path: Path) -> Workload:
    """Load the workload that a user's file defines as ``WORKLOAD``.

    Raises `UsageError` that names the missing part, with its line where there is one."""
    path = path.resolve()
    try:
        module = load_file(path)
    except UsageError:
        raise
    except SyntaxError as error:
        raise UsageError(
            f"{path}, line {error.lineno}: {error.msg}", remedy="correct the file's Python"
        ) from error
    except Exception as error:
        raise UsageError(
            f"{path}, line {line_in(path, error)}: {type(error).__name__}: {error}",
            remedy="what a workload imports lies next to its file, which is sent to the machines "
            "that run it, or is installed here and there"
            if isinstance(error, ImportError)
            else "the file must run as it stands and define WORKLOAD = Workload(...) with every "
            f"one of: {', '.join(_required_fields())}",
        ) from error
    return _checked(path, getattr(module, "WORKLOAD", None))


def _checked(path: Path, found: object) -> Workload:
    if found is None:
        raise UsageError(
            f"{path} defines no WORKLOAD",
            remedy="end it with WORKLOAD = Workload(...) from workloads.base; it needs "
            f"{', '.join(_required_fields())}",
        )
    if not isinstance(found, Workload):
        missing = [name for name in _required_fields() if not hasattr(found, name)]
        lacks = f" and lacks {', '.join(missing)}" if missing else ""
        raise UsageError(
            f"{path}: WORKLOAD is a {type(found).__name__}{lacks}",
            remedy="make it a Workload(...) from workloads.base",
        )
    for source in found.sources:
        _check_source(path, source)
    sent = packages.places(path, found.packages)
    if sent and TASKS in found.forms:
        raise UsageError(
            f"{path} has a topology of tasks and imports {', '.join(place.name for place in sent)}",
            remedy="a topology of tasks is one file, which is carried to the machines that run it: "
            "move what it needs into it, or leave the tasks out",
        )
    return replace(found, reference=Reference(target=f"{path}:WORKLOAD"))


def _required_fields() -> list[str]:
    return [
        item.name
        for item in fields(Workload)
        if item.default is MISSING and item.default_factory is MISSING
    ]


def _check_source(path: Path, source: Source) -> None:
    """Raise `UsageError` for a source whose records cannot be made, or not made twice."""
    where = f"{path}: source {source.name!r}"
    built = _built(path, source)
    if not hasattr(built, "payloads"):
        raise UsageError(
            f"{where}: {source.records.target} builds a "
            f"{type(built).__name__}, which has no payloads()",
            remedy="give it payloads(partition, start_index, count) -> list of bytes",
        )
    made = _payloads(path, source, built, 0, 3)
    if len(made) != 3 or not all(isinstance(payload, bytes) for payload in made):
        raise UsageError(
            f"{where}: payloads(0, 0, 3) gave {made!r:.80}",
            remedy="return exactly as many bytes objects as were asked for",
        )
    _check_beside(where, source, built)
    once = _payloads(path, source, built, 0, ASKED)
    again = _payloads(path, source, _built(path, source), 0, ASKED)
    part = _payloads(path, source, built, FROM, PART)
    for name, other, there in (
        (f"payloads(0, 0, {ASKED})", again, once),
        (f"payloads(0, {FROM}, {PART})", part, once[FROM : FROM + PART]),
    ):
        number = _first_difference(other, there)
        if number is not None:
            raise UsageError(
                f"{where}: it is not deterministic: {name} gave other records when it was asked "
                f"again, first {there[number]!r:.60} and then {other[number]!r:.60}",
                remedy="let a record depend on partition, index and the parameters alone, such as "
                'random.Random(f"{self.seed} {partition} {index}"): a run and its twin must get '
                "the same input",
            )


def _check_beside(where: str, source: Source, built: RecordSource) -> None:
    """Raise `UsageError` for keys, headers or a skew that do not fit the records."""
    if source.headers != isinstance(built, HeadedSource):
        raise UsageError(
            f"{where}: Source(headers={source.headers}), and {type(built).__name__} has "
            f"{'no' if source.headers else 'a'} method headers(partition, start_index, count)",
            remedy="give both, for records with headers, or neither",
        )
    if source.skew and isinstance(built, RecordedSource):
        raise UsageError(
            f"{where}: a recording has a skew",
            remedy="leave skew out: a recording deals its records to the partitions in turn",
        )
    for name in ("keys", "headers"):
        if not hasattr(built, name):
            continue
        if not callable(method := getattr(built, name)):
            raise UsageError(
                f"{where}: {type(built).__name__}.{name} is {method!r:.60}",
                remedy=f"give it another name: {name} is a method here, of each record's",
            )
        if len(made := list(method(0, 0, 3))) != 3:
            raise UsageError(
                f"{where}: {name}(0, 0, 3) gave {made!r:.80}",
                remedy="return one for each record that was asked for",
            )


def _first_difference(one: Sequence[bytes], other: Sequence[bytes]) -> int | None:
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), None)


def _built(path: Path, source: Source) -> Any:
    """Build the source; raise `UsageError` for a parameter that it does not take."""
    reference = source.records
    name = reference.target.rpartition(":")[2]
    remedy = (
        f"it is called with the parameters {dict(reference.parameters)}; see that it can be built "
        "from them in every process"
    )
    with _blaming(path, source, f"{name}(...)", remedy):
        made = getattr(reference.module(), name, None)
        if callable(made):
            where = f"{path}: source {source.name!r}"
            _check_parameters(where, name, made, reference.parameters)
        return reference.build()


def _check_parameters(where: str, name: str, made: Any, parameters: Any) -> None:
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):  # a class of C has none
        return
    try:
        signature.bind(**parameters)
    except TypeError as error:
        known = list(signature.parameters)
        unknown = [each for each in parameters if each not in known]
        remedy = did_you_mean(unknown[0], known) if unknown and known else ""
        raise UsageError(
            f"{where}: {name} cannot be called with the parameters {dict(parameters)}: {error}",
            remedy=remedy
            or f"it takes {', '.join(known) or 'none'}: give these in parameters={{}}",
        ) from error


def _payloads(path: Path, source: Source, built: RecordSource, start: int, count: int) -> Any:
    remedy = "return the values of these records as a list of bytes"
    with _blaming(path, source, f"payloads(0, {start}, {count})", remedy):
        return list(built.payloads(0, start, count))


@contextmanager
def _blaming(path: Path, source: Source, call: str, remedy: str) -> Iterator[None]:
    """Raise `UsageError`, with the line in the user's file, where the call of its code fails."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"{path}, line {line_in(path, error)}: source {source.name!r}: {call} raised "
            f"{type(error).__name__}: {error}",
            remedy=remedy,
        ) from error


def line_in(path: Path, error: BaseException) -> int:
    """Return the last line of ``path`` in the error's traceback."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
