"""Rules that several live figures share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.live._judged import worst_of
from experiments.ppa._recoveries import MEASURED, at_the_real_instants, summary_of, weighted
from experiments.ppa._topology import PACED, SIMULATED
from harness.claims import Sample, Word, hypothesis, judge, median_of
from tests.there import there

ABOVE, BELOW = median_of([2.0, 2.1, 2.2, 2.3, 2.4, 2.5]), median_of([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
AROUND, FEW = median_of([0.5, 0.9, 1.1, 1.2, 1.5, 1.9]), median_of([2.0])


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        ({"a": ABOVE}, Word.HOLDS),
        ({"a": ABOVE, "b": BELOW}, Word.DOES_NOT_HOLD),
        ({"a": ABOVE, "b": AROUND}, Word.UNDECIDED),
        ({"a": BELOW, "b": AROUND}, Word.DOES_NOT_HOLD),
        ({"a": ABOVE, "b": FEW}, Word.UNDECIDED),
        ({"a": ABOVE, "b": None}, Word.UNDECIDED),
        ({"a": None}, Word.NOT_MEASURED),
        ({}, Word.NOT_MEASURED),
    ],
)
def test_every_cell_is_compared_with_its_interval(
    cells: dict[str, Sample | None], word: Word
) -> None:
    claim = hypothesis("toy", "All are above")(lambda _: worst_of(cells, 1.0, least=True))
    assert there(judge(claim, None)).word is word


def test_a_mean_over_places_is_null_where_one_is() -> None:
    rows = pd.DataFrame(
        {"run": ["a", "a", "b", "b"], "latency_s": [1.0, 3.0, 1.0, None], "outside_s": 4.0}
    )
    found = weighted(rows, pd.Series([3.0, 1.0, 3.0, 1.0]), ["run"], ["latency_s", "outside_s"])
    assert found["latency_s"][0] == pytest.approx(1.5)
    assert pd.isna(found["latency_s"][1])
    assert found["outside_s"].tolist() == [4.0, 4.0]


def test_a_summary_has_both_measures_with_intervals() -> None:
    samples = pd.DataFrame({name: np.arange(1.0, 7.0) for name in MEASURED}).assign(cell="one")
    samples["in_vain"] = [0.0, 0.25, 0.0, 0.0, 1.0, 0.0]
    (row,) = summary_of(samples, ["cell"]).to_dict("records")
    assert (row["n"], row["latency_s"], row["outside_s"]) == (6, 3.5, 3.5)
    assert row["outside_s_low"] < 3.5 < row["outside_s_high"]
    assert row["in_vain"] == 2, "samples that have a lower bound in them"
    samples.loc[0, "latency_s"] = None
    assert summary_of(samples, ["cell"])["latency_s"].isna().all(), "one never came back"
    assert not len(summary_of(samples[:0], ["cell"]))


def test_simulated_marks_are_those_of_the_instants_that_really_were() -> None:
    rows = pd.DataFrame(
        {
            "engine": [PACED, SIMULATED, SIMULATED],
            "rate": [1, 1, 2],
            "latency_s": [0.9, 0.5, 0.6],
            "simulated_s": [0.7, None, None],
            "outside_s": [1.1, None, None],
        }
    )
    found = at_the_real_instants(rows, SIMULATED, ["rate"])
    assert dict(zip(found["rate"], found["latency_s"], strict=True)) == {1: 0.7, 2: 0.6}
    assert found["outside_s"].isna().all()
    assert at_the_real_instants(rows, PACED, ["rate"])["latency_s"].tolist() == [0.9]
