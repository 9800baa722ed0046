"""The partition of a rack under the papers' schemes: what the judge does not count."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.live import partition
from harness.results.record import Outcome


def test_what_came_meanwhile_and_what_was_fenced_is_counted() -> None:
    timeline = pd.DataFrame(
        {
            "pass": ["twin"] * 4 + ["failed"] * 4,
            "at_s": [5.5, 6.0, 15.5, 16.0] * 2,
            "throughput_per_s": [5.0, 5.0, 5.0, 5.0, 5.0, 3.0, 3.0, 5.0],
        }
    )
    incidents = pd.DataFrame({"event": ["fenced", "detected"], "at_s": [16.1, 7.2]})
    series = {"timeline": timeline, "incidents": incidents}
    found = partition._beyond(Outcome(values={"failed_at_s": 6.0}, series=series), 9.9)
    assert found == {"down_s": 9.9, "fenced": 1, "delivered_meanwhile": pytest.approx(0.6)}
    nothing = partition._beyond(Outcome(values={"failed_at_s": None}, series=series), 9.9)
    assert nothing["delivered_meanwhile"] is None
