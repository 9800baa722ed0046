"""The optimal intervals of other models, as whole periods like our T.

Young's and Daly's τ is the time computed between two checkpoints, so their period is τ + c.
Zhuang et al.'s formula is in no copy at hand; `zhuang_interval_s` is a reconstruction from
their abstract and is labelled as one in every figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from harness.errors import UsageError
from harness.intervals.utilization import Array, CheckpointedSystem


def young_interval_s(system: CheckpointedSystem) -> Array:
    """Return Young's interval of 1974: τ = sqrt(2cM); the period τ + c."""
    return np.asarray(np.sqrt(2.0 * system.cost_s * system.mttf_s) + system.cost_s)


def daly_first_order_interval_s(system: CheckpointedSystem) -> Array:
    """Return Daly's first-order interval of 2003: τ = sqrt(2c(M + R)); the period τ + c.

    It is good while τ and c are well below M."""
    useful = np.sqrt(2.0 * system.cost_s * (system.mttf_s + np.asarray(system.restart_s)))
    return np.asarray(useful + system.cost_s)


def daly_interval_s(system: CheckpointedSystem) -> Array:
    """Return Daly's higher-order interval of 2006 (equation 37), as a period.

    τ = sqrt(2cM) [1 + sqrt(c/2M)/3 + (c/2M)/9] - c while c < 2M, else M."""
    mttf = np.asarray(system.mttf_s, dtype=float)
    ratio = np.asarray(system.cost_s / (2.0 * mttf))
    period = np.sqrt(2.0 * system.cost_s * mttf) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0)
    return np.asarray(np.where(ratio < 1.0, period, mttf + system.cost_s))


def zhuang_interval_s(system: CheckpointedSystem, *, load: float = 1.0) -> Array:
    """Return the interval of Zhuang et al. 2018, reconstructed.

    Recovery reprocesses the input since the last checkpoint, so c/T + load T/(2M) is least at
    T = sqrt(2cM / load).

    ``load`` is the input rate over the highest processing rate, in (0, 1]; the utilization
    paper compares at 1, where this is Young's τ read as the whole period."""
    if not 0.0 < load <= 1.0:
        raise UsageError(f"load is {load:g}", remedy="give a share above 0 and at most 1")
    period = np.sqrt(2.0 * system.cost_s * system.mttf_s / load)
    # Where λc > 2 the first-order period would not even hold its own checkpoint.
    return np.asarray(np.maximum(period, system.cost_s))


RIVALS: Mapping[str, Callable[[CheckpointedSystem], Array]] = {
    "young": young_interval_s,
    "daly-first": daly_first_order_interval_s,
    "daly": daly_interval_s,
    "zhuang": zhuang_interval_s,
}
"""The models by their names in figures (`harness.figures.style.MODELS`)."""
