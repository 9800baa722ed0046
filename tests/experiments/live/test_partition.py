"""The partition of a rack under the papers' schemes: claims that can fail, without a cluster."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import partition
from experiments.live.partition import CONTENDERS
from experiments.stock.partition import FAILURES
from harness.results.record import Outcome


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
