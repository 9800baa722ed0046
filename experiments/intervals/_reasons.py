"""What was found out about verdicts of this group: see `harness.running.discovery.reasons`."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, Mapping[str, str]] = {
    "intervals/flink": {
        "Theoretical utilization at T* of all six rows (not reproducible from the printed c "
        "and R; the differences have both signs)": (
            "The printed values do not follow from the printed c, R and T*. A cost of 0.75 s, found"
            " from them, gives the three rows of five operators: the authors seem to have taken T* "
            "from the 30-minute run and U(T*) with the c of another run, where windows are smaller."
            " No single cost gives the rows of seven operators, too, one of which differs in the "
            "other direction."
        ),
    },
    "intervals/lanl-systems": {
        "Where a repair is waited for, the closed form with the mean repair as its constant "
        "restart is within one percentage point too": (
            "Repairs are lognormal with a long tail, and the closed form takes their mean as a "
            "constant. A restart enters it as exp(-λR), whose mean over such repairs is larger than"
            " its value at their mean: for the systems with a failure every 7 hours that alone is "
            "nine of the ten percentage points. The rest comes from failures that cluster. The "
            "closed form is therefore too low, the more so the more often a system fails."
        ),
    },
}
