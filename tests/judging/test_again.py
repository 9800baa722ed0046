"""A recorded output is compared again from files, with the verdict that the judge gave."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from harness.judging.again import FIRST, FURTHER, TRUTH, against_truth, deliveries
from tests.judging import constructed
from tests.judging.constructed import WORKLOAD, judged, record


def wrong(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(count=frame["count"].mask(frame.index == 20, 1))


def lost(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(index=frame.index[[20]])


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.iloc[[20]].assign(arrival_s=99.0)], ignore_index=True)


def tentative(frame: pd.DataFrame) -> pd.DataFrame:
    early = frame.iloc[[20]].assign(count=1, arrival_s=0.5, stability="tentative")
    both: pd.DataFrame = pd.concat([early, frame.assign(stability="stable")], ignore_index=True)
    return both


def revised(frame: pd.DataFrame) -> pd.DataFrame:
    """Every result comes twice, first with another value, at the same instant."""
    early = frame.assign(count=1)
    both: pd.DataFrame = pd.concat([early, frame], ignore_index=True).assign(stability="revision")
    return both.sort_values("arrival_s", kind="stable", ignore_index=True)


@pytest.mark.parametrize("spoil", [lambda frame: frame, wrong, lost, twice, tentative, revised])
def test_a_kept_output_is_compared_again(spoil: object, tmp_path: Path) -> None:
    assert callable(spoil)
    given = spoil(constructed.deliveries())
    outcome = judged(record(given, failures=constructed.injected()), settle_s=0.0)
    series = {}
    for name in (FIRST, FURTHER, TRUTH):
        file = tmp_path / f"{name}.parquet"
        outcome.series[name].to_parquet(file)
        series[name] = pd.read_parquet(file)
    assert len(deliveries(series)) == len(given), "every delivery is there"
    stable, last = against_truth(series, WORKLOAD)
    assert (stable.equal and last.equal) == outcome.values["output_equals_truth"]
    assert stable.equal == (spoil not in (wrong, lost))
