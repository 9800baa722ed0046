"""Changed parameters for a reviewer: one a paper, with what should then happen and why.

Each is a point that the grids lack, or another seed, and the factor by which one value changes is
predicted from the paper. The factor was written down before the point was run.

Tests: ``tests/pages/test_trials.py`` runs each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Two runs that differ in one parameter, and the factor between them that is expected."""

    paper: str
    experiment: str
    first: str
    """Options of ``run`` for the first run."""
    changed: str
    """Options for the other run, which differ in one value."""
    value: str
    """The value that is compared, of the records."""
    least: float
    most: float
    """Between these is the value of the changed run divided by that of the first."""
    because: str
    """The reason, in a sentence of the paper's."""

    @property
    def commands(self) -> Sequence[str]:
        """The two command lines, without a directory for their results."""
        run = f"./faultline run {self.experiment} --json"
        return [f"{run} {options}" for options in (self.first, self.changed)]

    @property
    def expected(self) -> str:
        """The expectation in words."""
        return f"`{self.value}` becomes {self.least:g} to {self.most:g} times as large"


TRIALS: Sequence[Trial] = (
    Trial(
        paper="Su, Zhou, ICDE 2016",
        experiment="ppa/recovery-single",
        first="--point contender=CKP-5s,window_s=30,rate=1000",
        changed="--point contender=CKP-5s,window_s=30,rate=500",
        value="latency_s",
        least=0.4,
        most=0.6,
        because="Figure 7: the recovery of a checkpointed task is in proportion to the rate, "
        "because as much less input is processed again. 500 tuples/s is not in the paper's grid.",
    ),
    Trial(
        paper="Su, Zhou, TKDE 2019",
        experiment="ppa/multi-query",
        first="--point priorities=uniform",
        changed="--point priorities=uniform --seed 7",
        value="mean_sa",
        least=0.9,
        most=1.1,
        because="Figure 17 is about random topologies in the mean: other topologies, drawn with "
        "another seed, must give nearly the same output fidelity.",
    ),
    Trial(
        paper="Jayasekara, Harwood, Karunasekera, FGCS 2020",
        experiment="intervals/single-process-simulated",
        first="--point failures_per_min=0.01",
        changed="--point failures_per_min=0.0025",
        value="optimal_interval_min",
        least=1.9,
        most=2.1,
        because="T* grows as one over the square root of the failure rate while checkpoints are "
        "short beside the time to a failure: a quarter of the rate gives twice the interval.",
    ),
    Trial(
        paper="Balazinska, Balakrishnan, Madden, Stonebraker, SIGMOD 2005",
        experiment="dpc/serialization",
        first="--point bucket_ms=500,chain=1,rate_per_s=3000",
        changed="--point bucket_ms=1000,chain=1,rate_per_s=3000",
        value="mean_delay_s",
        least=1.8,
        most=2.2,
        because="Table 3: the delay that serialization adds grows linearly with the bucket, and "
        "next to nothing of it is left without one.",
    ),
    Trial(
        paper="Xu, Palanisamy, Wang, CCGrid 2021",
        experiment="edge/success",
        first="--point mechanism=RPPG+RAS,rate=60",
        changed="--point mechanism=RPPG+RAS,rate=120",
        value="throughput_per_s",
        least=1.9,
        most=2.1,
        because="Figure 8: with RPPG and RAS a failure does not lower the throughput, so below "
        "saturation it follows the input rate. 120 tuples/s is a rate that the grid lacks.",
    ),
)
