"""PPA at query level: what the second, smaller query reads, and when its results count.

The first application runs the whole query on one rack. The second one runs the same query on
another rack, over those partitions alone that the plan's MC-trees need, and marks everything that
it publishes as tentative. A reader holds that back, as a replica holds its output back, while the
first application is whole. From the moment at which the first is seen to have lost an executor
until its next batch is committed, the reader shows what the second has, where the first has given
nothing yet; the first's own results replace it when they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from harness.engines.base import Event, EventKind
from harness.measure.values import identities
from harness.measure.versions import STABILITY, Stability
from workloads.base import SINK, Workload

SCHEME = "ppa"
FIRST, SECOND = 0, 1
"""Copies: the whole query, and the smaller one."""

Partitions = Mapping[str, Sequence[int]]
"""Source to its partitions."""


def unreadable(partitions: Partitions, workload: Workload) -> str | None:
    """Return why the second query of a workload could give nothing; None if it could.

    Each source takes part in every MC-tree, because a query is one connected piece."""
    if SINK in workload.forms:
        return f"workload {workload.name!r} has a sink of its own, which marks no tentative results"
    for source in workload.sources:
        numbers = partitions.get(source.name, ())
        if not numbers:
            return (
                f"the plan needs no partition of source {source.name!r}, so that it holds no whole "
                "MC-tree and the second query would give nothing"
            )
        if max(numbers) >= source.partitions:
            return (
                f"source {source.name!r} has {source.partitions} partitions, and the plan names "
                f"number {max(numbers)}"
            )
    return None


def away(events: Iterable[Event]) -> list[tuple[float, float]]:
    """Return the spans in which the first application was not whole, in seconds since the epoch.

    A span is from the first loss of an executor to the commit of the next batch; it has no end
    where none came."""
    spans: list[tuple[float, float]] = []
    since: float | None = None
    for event in sorted(events, key=lambda event: event.at_unix_s):
        if event.copy != FIRST:
            continue
        if event.kind is EventKind.DETECTED and since is None:
            since = event.at_unix_s
        elif event.kind is EventKind.RECOVERED and since is not None:
            spans.append((since, event.at_unix_s))
            since = None
    return spans if since is None else [*spans, (since, math.inf)]


def shown(
    deliveries: pd.DataFrame, spans_s: Sequence[tuple[float, float]], identity: Sequence[str]
) -> pd.DataFrame:
    """Return the ``deliveries`` (`Engine.read`) that a reader shows, by arrival.

    ``spans_s`` are those of `away` in seconds of the pass. A tentative result from before such a
    span is shown when the span begins, unless the first application had given it by then."""
    tentative = deliveries[STABILITY] == Stability.TENTATIVE.value
    stable, held = deliveries[~tentative], deliveries[tentative]
    stable_of, held_of = identities([stable, held], identity)
    first_s = stable["arrival_s"].groupby(stable_of).min()
    given_s = first_s.reindex(held_of).fillna(math.inf).set_axis(held.index)
    at_s = pd.Series(math.inf, index=held.index)
    for begin_s, end_s in reversed(spans_s):
        at_s = at_s.mask(held["arrival_s"] < end_s, held["arrival_s"].clip(lower=begin_s))
    chosen = held.assign(arrival_s=at_s)[at_s < given_s]
    return pd.concat([stable, chosen]).sort_values("arrival_s", kind="stable", ignore_index=True)
