"""What figures 15a, 15b and 16 share: every model's interval for one failure rate."""

from __future__ import annotations

import pandas as pd

from harness.figures.chart import Line
from harness.figures.style import MODELS
from harness.intervals.rivals import RIVALS
from harness.intervals.utilization import CheckpointedSystem

RESTART_S, DEPTH, DELAY_S = 30.0, 5, 0.027
ORDER = ("ours", "daly", "daly-first", "young", "zhuang")
IN_PAPER = ("ours", "daly-first", "zhuang")

NOTES = (
    "Young's and Daly's τ is the time between checkpoints; drawn is the whole period τ + c.",
    "Zhuang et al.'s formula is in no copy at hand. The curve is a reconstruction from their "
    "abstract: recovery reprocesses the input since the last checkpoint, so c/T + λT/2 is least "
    "at T = sqrt(2c/λ) when the input rate equals the highest processing rate, as the paper "
    "assumed.",
    "Dashed: models that the paper does not compare with.",
)


def intervals(system: CheckpointedSystem) -> pd.DataFrame:
    """Return every model's interval, the rows of one model below those of another.

    Columns: ``model, interval_s, utilization, gain_percent`` (of ours over the model). The fields
    of ``system`` are scalars or of one shape."""
    best = system.optimal_interval_s()
    chosen = {"ours": best} | {name: rival(system) for name, rival in RIVALS.items()}
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "model": name,
                    "cost_s": system.cost_s,
                    "failures_per_min": 60.0 * system.failure_rate_per_s,
                    "interval_s": chosen[name],
                    "utilization": system.utilization(chosen[name]),
                    "gain_percent": 100.0 * system.increase(best, over_s=chosen[name]),
                }
            )
            for name in ORDER
        ],
        ignore_index=True,
    )


def models(x: str, y: str) -> Line:
    """Draw a curve per model in its own colour; what the paper does not compare with is dashed."""
    looks = {
        name: {
            "label": MODELS[name].label,
            "color": MODELS[name].color,
            "linestyle": "-" if name in IN_PAPER else "--",
        }
        for name in ORDER
    }
    return Line(x=x, y=y, by="model", looks=looks)
