"""Changed parameters for a reviewer: one a paper, with what should then happen and why.

Each is a point that the grids lack, or another seed, and the factor by which one value changes is
predicted from the paper. The factor was written down before the point was run.

Tests: ``tests/pages/test_trials.py`` runs each of them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.errors import EnvironmentFailure
from harness.results.provenance import ROOT

DEADLINE_S = 300.0


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
    def commands(self) -> tuple[str, str]:
        """The two command lines, without a directory for their results."""
        return tuple(f"./faultline {shlex.join(words)}" for words in self.words)  # type: ignore[return-value]

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """The words of both commands."""
        both = ["run", self.experiment, "--json"]
        return [*both, *self.first.split()], [*both, *self.changed.split()]

    @property
    def expected(self) -> str:
        """The expectation in words."""
        return f"`{self.value}` becomes {self.least:g} to {self.most:g} times as large"

    def held(self, first: float, changed: float) -> bool:
        """Return True if the factor is the expected one."""
        return self.least <= changed / first <= self.most


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial and its two values, means over the runs."""

    trial: Trial
    first: float
    changed: float

    @property
    def held(self) -> bool:
        """True if the expectation came true."""
        return self.trial.held(self.first, self.changed)


def tried(into: Path) -> Iterator[Tried]:
    """Yield every trial, run by the commands that a reader would type, with results in a folder.

    Raises `EnvironmentFailure` with the command's words if one fails."""
    for number, trial in enumerate(TRIALS):
        values = []
        for place, words in zip(("first", "changed"), trial.words, strict=True):
            out = into / f"{number + 1}-{place}"
            values.append(value_of(_answer([*words, "--out", str(out)]), trial.value))
        yield Tried(trial=trial, first=values[0], changed=values[1])


def value_of(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return the mean of a value over the runs of one answer."""
    return fmean(run["values"][name] for run in runs)


def _answer(words: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return the runs in the answer of a ``run`` command; claims about a part decide nothing."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness.cli", *words, "--again"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise EnvironmentFailure(
            f"./faultline {shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}",
            remedy="give the command itself, to see all of its words",
        )
    runs: Sequence[Mapping[str, Any]] = json.loads(done.stdout)["runs"]
    return runs
