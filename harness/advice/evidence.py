"""Simulated recoveries as numbers, and a formula that is fitted to them.

A run becomes one row: its scheme, what failed, and the times that an ideal machine would take:

* ``process_s``: to process the tuples of the recovery again, and nothing else. With checkpoints
  these are the tuples since the last one; with source replay those of all windows on which the
  lost state depends; with an active replica there are none.
* ``load_s``: to load the state from its store.

The measured time is ``recovery_s``, from the detection until the last failed task is back where it
was (the papers' definition). The formula is ``base + a·process_s + b·load_s`` with constants that
cannot be negative, fitted per scheme and kind of failure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from experiments.ppa import _latency, _recovery
from harness.errors import UsageError
from harness.protocol.schemes import SCHEMES
from harness.results.library import Library

FEATURES = ("process_s", "load_s")
FEWEST_RUNS = 4
"""Least number of runs of a scheme to which a formula is fitted."""


class SchemeName(StrEnum):
    """The compared schemes, by their labels."""

    REPLAY = SCHEMES["replay"].label
    CHECKPOINT = SCHEMES["checkpoint"].label
    PPA = SCHEMES["ppa"].label
    ACTIVE = SCHEMES["active"].label

    @property
    def key(self) -> str:
        """The scheme's name in `harness.protocol.schemes`."""
        return self.name.lower()


class FailureKind(StrEnum):
    """The part of the cluster that fails."""

    NODE = "one node"
    ALL = "every node at once"
    """The worst case of a rack's failure."""


_EXPERIMENTS = {"ppa/recovery-single": FailureKind.NODE, "ppa/recovery-correlated": FailureKind.ALL}
_TASK_INPUT_PER_SOURCE = 2.0
"""Input of a task over the output of a source task, in the papers' recovery topology."""


def evidence(results: Library) -> pd.DataFrame:
    """Return a row per measured point: the mean over its repetitions.

    Its columns: ``experiment``, ``scheme``, ``failure``, ``process_s``, ``load_s``, ``recovery_s``,
    ``rate``, ``runs``. Empty where the results hold none of the experiments."""
    frames = [
        _of_experiment(results, experiment, failure)
        for experiment, failure in _EXPERIMENTS.items()
        if any(each.record.experiment == experiment for each in results.found)
    ]
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        return pd.DataFrame(columns=["scheme", "failure", *FEATURES, "recovery_s"])
    return pd.concat(frames, ignore_index=True)


def _of_experiment(results: Library, experiment: str, failure: FailureKind) -> pd.DataFrame:
    runs = results.wide(experiment)
    runs = runs[runs["engine"] == _latency.SIMULATED] if len(runs) else runs
    rows = []
    grouped = runs.groupby(["contender", "window_s", "rate"]) if len(runs) else ()
    for place, group in grouped:
        contender, window_s, rate = str(place[0]), float(str(place[1])), float(str(place[2]))
        scheme, process_s, load_s = _ideal(contender, window_s, rate)
        rows.append(
            {
                "experiment": experiment,
                "scheme": scheme,
                "failure": failure,
                "process_s": process_s,
                "load_s": load_s,
                "recovery_s": float(group["latency_s"].mean()),
                "rate": _TASK_INPUT_PER_SOURCE * rate,
                "runs": len(group),
            }
        )
    return pd.DataFrame(rows)


def _ideal(contender: str, window_s: float, rate: float) -> tuple[SchemeName, float, float]:
    machine, into_task = _recovery.MACHINE, _TASK_INPUT_PER_SOURCE * rate
    if contender in _latency.ACTIVE:
        return SchemeName.ACTIVE, 0.0, 0.0
    if contender == _latency.REPLAY:
        again = into_task * window_s  # of one window, whatever the number of operators
        return SchemeName.REPLAY, again * machine.tuple_us / 1e6, 0.0
    again = into_task * _latency.CONTENDERS[contender].checkpoint_s / 2.0
    process_s, load_s = again * machine.tuple_us / 1e6, into_task * window_s * machine.load_us / 1e6
    return SchemeName.CHECKPOINT, process_s, load_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Recovery of one scheme after one kind of failure, in seconds from the detection."""

    base_s: float
    factors: tuple[float, float]
    """Times over the ideal machine's ``process_s`` and ``load_s``."""
    runs: pd.DataFrame
    """The fitted runs, with ``predicted_s`` by a fit without that run, and ``off``: predicted over
    measured."""

    def predict(self, process_s: float, load_s: float) -> float:
        """Return the recovery, in seconds, for these two parts of the work."""
        return self.base_s + self.factors[0] * process_s + self.factors[1] * load_s

    @property
    def off_by(self) -> float:
        """The largest error, as a factor, of nine of ten predictions of unseen runs."""
        wrong = np.abs(np.log(self.runs["off"].to_numpy(dtype=float)))
        return float(np.exp(np.quantile(wrong, 0.9)))


def fit(rows: pd.DataFrame, scheme: SchemeName, failure: FailureKind) -> Fit | None:
    """Fit one scheme and kind of failure; None where there are too few runs."""
    mine = rows[(rows["scheme"] == scheme) & (rows["failure"] == failure)]
    if len(mine) < FEWEST_RUNS:
        return None
    predicted = []
    for place, left_out in enumerate(mine.to_dict("records")):
        others = _solve(mine.drop(index=mine.index[place]))
        predicted.append(others.predict(left_out["process_s"], left_out["load_s"]))
    runs = mine.assign(predicted_s=predicted)
    runs = runs.assign(off=runs["predicted_s"] / runs["recovery_s"]).reset_index(drop=True)
    return replace(_solve(mine), runs=runs)


def _solve(rows: pd.DataFrame) -> Fit:
    """Minimize the squared relative error, so that 10 ms counts as much as 10 s."""
    measured = rows["recovery_s"].to_numpy(dtype=float)
    if not (measured > 0).all():
        raise UsageError(
            "a measured recovery took no time at all",
            remedy="leave that run out of the results, or measure it again",
        )
    design = np.column_stack([np.ones(len(rows)), rows[list(FEATURES)].to_numpy(dtype=float)])
    (base_s, process, load), _ = nnls(design / measured[:, None], np.ones(len(rows)))
    return Fit(base_s=float(base_s), factors=(float(process), float(load)), runs=rows)
