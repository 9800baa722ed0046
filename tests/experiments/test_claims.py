"""Each claim can hold and fail, on the tables that ship: unchanged, and with numbers bent.

A column is scaled, negated, shifted, set to zero or put in another order, or the names of a column
change places. That each stays open on a part of a grid is in `tests.experiments.test_parts`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd
import pytest

from harness.claims.samples import FEWEST
from harness.experiment import Experiment, Tables
from harness.figures.style import new_figure, styled
from harness.pages.assessment import verdicts
from harness.running.discovery import all_experiments
from tests.golden.masters import shipped

OURS = {
    "live/partition", "live/predicted", "live/scale", "live/state", "live/utilization",
    "stock/calibration", "stock/input-rate", "stock/modes", "stock/partition",
    "stock/real-time-kill", "stock/worker-kill", "stock/workload-kill", "stock/worldcup-fit",
}  # fmt: skip
"""The claims of the other live and stock figures take more than one column to turn; some have tests
on tables of their own, and those of stock/rack-kill are made with those of stock/worker-kill."""
CHANGED = [
    e for e in all_experiments() if e.group in ("dpc", "intervals", "ppa", "edge") or e.id in OURS
]
SEEN_ONE_WAY: Mapping[str, set[str]] = {
    "dpc/availability-bound-live": {"analytic"},  # each of 24 points has to be near a formula
    "dpc/checkpoint-overhead-live": {"grows-with-frequency"},  # one frequency ships
    "dpc/failure-duration": {"delaying-fewer"},  # all three that delay have to have fewer
    "dpc/failure-duration-live": {"short-none"},  # no short failure ships
    "dpc/reconciliation": {"memory"},  # each of the points has to be near a formula
    "dpc/reconciliation-live": {"rebuild-costs-processing"},
    "edge/latency": {"recovery-above-5"},  # three mechanisms above a limit, and one below
    "edge/resources": {"full-range", "others-range"},  # two ends each have to be near
    "edge/success": {"all-in-the-end"},  # every mechanism has to be at 1
    "intervals/flink": {"theory-t-star"},  # each of six printed numbers has to be met
    "live/scale": {"many"},  # 34 nodes ship alone
    "live/utilization": {"model-predicts"},  # each cell has to be near the model
    "ppa/partial-replication": {"ten-times"},  # ten, and no more than twenty times
    # ten, and no more than some thirty times; no shipped record has plans by increase
    "ppa/random-topologies": {"tenfold", "close-on-full"},
    "ppa/query-accuracy": {"q1-close", "q1-close/4x5"},  # two metrics have to be near
    # one kind of kill at one interval ships
    "stock/real-time-kill": {
        "spare-slots-shorten",
        "grows-with-the-interval",
        "replicas-go-on",
    },
    "stock/workload-kill": {  # quick has accidents alone
        f"{workload}/{claim}"
        for workload in ("world-cup", "traffic-jams")
        for claim in ("equal", "accurate", "shorter-gap")
    },
}
"""Claims that no change of one column turns, by experiment."""


@functools.cache
def shipped_tables() -> Mapping[str, Tables]:
    """Return the tables of the campaign with most runs that ships, by experiment."""
    largest: dict[str, Any] = {}
    for judged in shipped():
        before = largest.get(judged.experiment.id)
        if before is None or len(before.campaign.records) < len(judged.campaign.records):
            largest[judged.experiment.id] = judged
    return {name: j.experiment.table(j.campaign.results()) for name, j in largest.items()}


def bent(tables: Tables) -> Iterator[Tables]:
    """Yield the tables with one column changed, in one way after the other."""
    yield tables
    for name, table in ({"": tables} if isinstance(tables, pd.DataFrame) else tables).items():
        for column in table.columns:
            for values in changed(table[column]):
                other = table.assign(**{column: values})
                yield other if isinstance(tables, pd.DataFrame) else {**tables, name: other}


def changed(values: pd.Series[Any]) -> Iterator[Any]:
    """Yield other values of a column."""
    if pd.api.types.is_bool_dtype(values):
        yield ~values
        yield values | True
        yield values & False
    elif pd.api.types.is_numeric_dtype(values):
        yield from (values * factor for factor in (0, 0.01, 0.5, 2, 100, -1))
        yield from (values + amount for amount in (-1, 1, 1e6))
        yield values.to_numpy()[::-1]
        yield values.rank(method="first")
        yield -values.rank(method="first")
    else:
        names = list(dict.fromkeys(each for each in values if isinstance(each, str)))
        for one, two in zip(names, [*names[1:], *names[:1]], strict=True):
            yield values.replace({one: two, two: one})


def repeated(tables: Tables) -> Tables:
    """Return tables with as many repetitions of their runs as an interval needs."""
    if isinstance(tables, pd.DataFrame):
        return _repeated(tables)
    return {name: _repeated(table) for name, table in tables.items()}


def _repeated(table: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in ("repeat", "run") if name in table]
    copies = [
        table.assign(**{name: table[name].astype(str) + f" {n}" for name in names})
        for n in range(FEWEST if names else 1)
    ]
    return pd.concat(copies, ignore_index=True)


@pytest.mark.parametrize("experiment", CHANGED, ids=lambda each: str(each.id))
def test_each_claim_can_hold_and_fail(experiment: Experiment) -> None:
    tables = shipped_tables().get(experiment.id)
    if tables is None:
        pytest.skip("no record of it ships")
    wanted = {(claim.id, held) for claim in experiment.claims for held in (True, False)}
    for other in chain(bent(tables), bent(repeated(tables))):
        names = {name for name, _ in wanted}
        left = replace(experiment, claims=[e for e in experiment.claims if e.id in names])
        wanted -= {(each.id, each.held) for each in verdicts(left, other)}
        if not wanted:
            break
    assert {name for name, _ in wanted} == SEEN_ONE_WAY.get(experiment.id, set()), wanted


NAMES_ON_X = {"stock/calibration", "stock/real-time-kill", "stock/worker-kill"}
NAMES_ON_Y = {"intervals/adaptive", "dpc/properties", "live/layout"}
"""Figures with names, not quantities, along an axis."""


@pytest.mark.parametrize("experiment", all_experiments(), ids=lambda each: str(each.id))
def test_every_figure_that_ships_is_drawn_with_units(experiment: Experiment) -> None:
    tables = shipped_tables().get(experiment.id)
    if tables is None:
        pytest.skip("no record of it ships")
    with styled():
        figure = new_figure(experiment.figure_size_in)
        experiment.draw(tables, figure)
        figure.draw_without_rendering()
    assert figure.axes
    for axes in figure.axes:
        assert axes.has_data() or "not measured" in [text.get_text() for text in axes.texts]
    x_label = any(axes.get_xlabel() for axes in figure.axes) or figure.get_supxlabel()
    assert x_label or experiment.id in NAMES_ON_X
    assert any(axes.get_ylabel() for axes in figure.axes) or experiment.id in NAMES_ON_Y
    assert experiment.notes
