"""The partition of a rack under the papers' schemes: claims that can fail, without a cluster."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import partition
from experiments.live.partition import CLAIMS, CONTENDERS, EXPERIMENT
from experiments.stock.partition import FAILURES
from harness.claims import ClaimKind
from harness.cluster.backends import BACKENDS
from harness.results.record import Outcome
from tests.experiments.live.judging import held, on_a_part, panels


def test_where_nothing_can_be_cut_all_of_it_is_skipped() -> None:
    """By the runner, before anything is started."""
    assert BACKENDS["local"].refusal(EXPERIMENT.measurement.actions) is not None
    assert BACKENDS["local-namespaces"].refusal(EXPERIMENT.measurement.actions) is None


def made_up(**changes: Any) -> pd.DataFrame:
    """Return a row per scheme and failure, as in a whole campaign."""
    rows = [
        {
            "run": "one", "variant": f"{scheme} {failure}", "repeat": 0, "scheme": scheme,
            "failure": failure,
            **dict.fromkeys(partition.MEASURES, 1.0), "failed_at_s": 6.0, "down_s": 10.0,
            "output_equals_truth": True, "output_equals_twin": True, "contradictions": 0,
            "uncorrected": 0, "fenced": 2,
            "detection_s": 0.02 if failure == "killed" else 1.2,
            "output_gap_s": 1.1 if scheme == "checkpoint" else 0.6,
        }
        for scheme in CONTENDERS
        for failure in FAILURES
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


def verdicts(**changes: Any) -> dict[str, bool | None]:
    return held(EXPERIMENT, {"runs": made_up(**changes)})


def one(value: object, otherwise: object, *, place: int = 0) -> list[object]:
    """Return a column in which one run is different."""
    cells = len(CONTENDERS) * len(FAILURES)
    return [value if cell == place else otherwise for cell in range(cells)]


def test_all_holds_where_all_is_well() -> None:
    assert list(verdicts().values()) == [True] * 7
    kinds = [claim.kind for claim in CLAIMS]
    assert kinds == [ClaimKind.INVARIANT] * 4 + [ClaimKind.HYPOTHESIS] * 3


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("really-broken", {"failures_done": one(0.0, 1.0)}),
        ("equal-output", {"output_equals_truth": one(False, True)}),
        ("equal-output", {"output_equals_twin": one(None, True)}),
        ("fenced", {"contradictions": one(1, 0)}),
        ("tentative-corrected", {"uncorrected": one(3, 0)}),
        (
            "silence-noticed",
            {"detection_s": [0.1 if "killed" in name else 3.0 for name in made_up()["variant"]]},
        ),
        ("kill-noticed-sooner", {"detection_s": 1.3}),
        ("shorter-gap-with-replicas", {"output_gap_s": one(9.0, 1.0, place=3)}),
    ],
)
def test_every_claim_can_fail_alone(claim: str, changes: dict[str, Any]) -> None:
    found = verdicts(**changes)
    assert [name for name, held in found.items() if held is False] == [claim]


def test_what_was_not_measured_is_not_decided() -> None:
    assert list(verdicts(detection_s=one(None, 1.2)).values())[4:6] == [None, None]
    assert verdicts(detection_s=one(None, 0.1, place=2))["kill-noticed-sooner"] is None
    assert verdicts(output_gap_s=one(None, 0.5))["shorter-gap-with-replicas"] is None
    first = held(EXPERIMENT, {"runs": made_up().iloc[:1]})
    assert list(first.values())[5:] == [None, None]
    assert set(held(EXPERIMENT, {"runs": made_up().iloc[:0]}).values()) == {None}


def series() -> dict[str, pd.DataFrame]:
    timeline = [
        {"run": "one", "variant": variant, "pass": name, "at_s": at / 2,
         "throughput_per_s": 3.0 if name == "failed" and 6 <= at / 2 < 16 else 5.0}
        for variant in made_up()["variant"] for name in ("twin", "failed") for at in range(48)
    ]  # fmt: skip
    incidents = [{"event": "fenced", "at_s": 16.1}, {"event": "detected", "at_s": 7.2}]
    return {"timeline": pd.DataFrame(timeline), "incidents": pd.DataFrame(incidents)}


def test_what_came_meanwhile_and_what_was_fenced_is_counted() -> None:
    alone = {**series(), "timeline": series()["timeline"].query("variant == 'PPA killed'")}
    found = partition._beyond(Outcome(values={"failed_at_s": 6.0}, series=alone), 9.9)
    assert found == {"down_s": 9.9, "fenced": 1, "delivered_meanwhile": pytest.approx(0.6)}
    nothing = partition._beyond(Outcome(values={"failed_at_s": None}, series=alone), 9.9)
    assert nothing["delivered_meanwhile"] is None


def test_the_figure_has_a_row_per_scheme_and_a_column_per_failure() -> None:
    axes_of = panels(EXPERIMENT, {"runs": made_up(), "timeline": series()["timeline"]})
    assert [axes.get_title() for axes in axes_of[:3]] == [f"a rack {f}" for f in FAILURES]
    assert len(axes_of) == len(CONTENDERS) * len(FAILURES)


@pytest.mark.parametrize("column", ["scheme", "failure"])
def test_a_part_is_drawn_and_judged_and_holds_nothing(column: str) -> None:
    for _, runs in made_up().groupby(column):
        tables = {"runs": runs, "timeline": series()["timeline"]}
        assert panels(EXPERIMENT, tables)
        assert {verdict.held for verdict in on_a_part(EXPERIMENT, tables)} == {None}
