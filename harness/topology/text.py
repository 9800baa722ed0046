"""User topologies in YAML.

::

    operators:
      - {name: vehicles, parallelism: 4, rate: [100, 100, 50, 50]}  # a source: tuples/s per task
      - {name: speed, parallelism: 2, selectivity: 0.5, cost: 2}
      - {name: jam, parallelism: 2, join: true}                     # correlated inputs
    edges:
      - {from: vehicles, to: speed, partitioning: merge}
      - {from: speed, to: jam, partitioning: one-to-one}
    queries:                                                        # optional
      - {name: alarms, sink: jam, priority: 1}

An operator may also have ``weights``, a share per task for the full and split streams into it.
A ``rate`` that is one number is the rate of every task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.text import did_you_mean
from harness.topology.model import Edge, Operator, Query, Topology
from harness.topology.partitioning import Partitioning
from harness.yaml_files import parse_yaml

T = TypeVar("T")

MOST_TASKS = 2_000
"""Limit per operator. A full edge has the product of its operators' tasks as substreams, and no
plan of the papers has more than dozens."""
MOST_UNITS = 1_000_000
_EXAMPLE = "see `./faultline plan --help` for the format"


def from_yaml_text(text: str, *, name: str = "the topology") -> Topology:
    """Return the topology in ``text``; ``name`` is its name in errors (the file).

    Raises `UsageError` that names the line, operator, edge or query at fault."""
    document = parse_yaml(text, name=name, remedy=_EXAMPLE)
    if not isinstance(document, dict) or "operators" not in document:
        raise UsageError(f"{name} is not a topology: it has no list of operators", remedy=_EXAMPLE)
    _check_keys(document, {"operators", "edges", "queries"}, name)
    try:
        return Topology(
            operators=_all(document, "operators", name, "operator", _operator),
            edges=_all(document, "edges", name, "edge", _edge),
            queries=_all(document, "queries", name, "query", _query),
        )
    except UsageError as error:
        if error.what.startswith(name):
            raise
        raise UsageError(f"{name}: {error.what}", remedy=error.remedy) from None


def _all(
    document: Mapping[str, Any],
    key: str,
    name: str,
    kind: str,
    read: Callable[[Mapping[str, Any], str], T],
) -> tuple[T, ...]:
    """Return the entries of the list ``key``, each through ``read``."""
    entries = document.get(key) or []
    if not isinstance(entries, list):
        raise UsageError(f"{name}: {key} is not a list", remedy=_EXAMPLE)
    for position, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict):
            raise UsageError(
                f"{name}: entry {position} of {key} is {entry!r}, not a mapping", remedy=_EXAMPLE
            )
    return tuple(
        read(entry, f"{name}, {kind} {position}") for position, entry in enumerate(entries, start=1)
    )


def _operator(entry: Mapping[str, Any], where: str) -> Operator:
    name = _text(entry, "name", where)
    where = f"{where} ({name!r})"
    known = {"name", "parallelism", "join", "selectivity", "weights", "rate", "cost"}
    _check_keys(entry, known, where)
    parallelism = _whole(entry, "parallelism", where, default=1, least=1, most=MOST_TASKS)
    join = entry.get("join", False)
    if not isinstance(join, bool):
        raise UsageError(f"{where}: join is {join!r}", remedy="write true or false")
    return Operator(
        name=name,
        parallelism=parallelism,
        join=join,
        selectivity=_number(entry.get("selectivity", 1.0), "selectivity", where),
        weights=_per_task(entry, "weights", where, parallelism),
        rate=_per_task(entry, "rate", where, parallelism),
        cost=_whole(entry, "cost", where, default=1, least=1),
    )


def _edge(entry: Mapping[str, Any], where: str) -> Edge:
    _check_keys(entry, {"from", "to", "partitioning"}, where)
    upstream, downstream = _text(entry, "from", where), _text(entry, "to", where)
    where = f"{where} ({upstream} -> {downstream})"
    given = _text(entry, "partitioning", where)
    kinds = [kind.value for kind in Partitioning]
    if given not in kinds:
        raise UsageError(
            f"{where}: no partitioning is called {given!r}", remedy=did_you_mean(given, kinds)
        )
    return Edge(upstream=upstream, downstream=downstream, partitioning=Partitioning(given))


def _query(entry: Mapping[str, Any], where: str) -> Query:
    _check_keys(entry, {"name", "sink", "priority"}, where)
    sink = _text(entry, "sink", where)
    name = _text(entry, "name", where) if "name" in entry else sink
    priority = _whole(entry, "priority", f"{where} ({name!r})", default=1, least=0)
    return Query(name=name, sink=sink, priority=priority)


def _check_keys(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in entry:
        if key not in known:
            raise UsageError(
                f"{where}: unknown key {key!r}", remedy=did_you_mean(str(key), sorted(known))
            )


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        given = "is missing" if key not in entry else f"is {value!r}, not a word"
        raise UsageError(f"{where}: {key} {given}", remedy=f"write `{key}: ...`; {_EXAMPLE}")
    return value.strip()


def _whole(
    entry: Mapping[str, Any],
    key: str,
    where: str,
    *,
    default: int,
    least: int,
    most: int = MOST_UNITS,
) -> int:
    value = entry.get(key, default)
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    if not fits:
        raise UsageError(
            f"{where}: {key} is {value!r}", remedy=f"give a whole number from {least} to {most:,}"
        )
    return int(value)


def _number(value: Any, key: str, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UsageError(f"{where}: {key} is {value!r}", remedy="give a number")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{where}: {key} is too large", remedy="give a smaller number") from None


def _per_task(
    entry: Mapping[str, Any], key: str, where: str, parallelism: int
) -> tuple[float, ...] | None:
    value = entry.get(key)
    if value is None:
        return None
    values = value if isinstance(value, list) else [value] * parallelism
    return tuple(_number(each, key, where) for each in values)
