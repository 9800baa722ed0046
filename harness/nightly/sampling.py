"""Samples: each from a fresh process, through pytest-benchmark, by the processor's clock.

A fresh process because where the loader puts code and how strings hash differ from process to
process, and a difference between two processes must not look like one between two revisions.
Both sides run the same benchmark files, those of the tree that asks; only what these import
comes from the side's own tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.nightly.metrics import Metric
from harness.nightly.statistics import Pairs
from harness.results.provenance import ROOT
from harness.seeds import derive_seed, generator
from harness.text import Notify

BENCHMARKS = ROOT / "benchmarks" / "nightly"
_TIMEOUT_S = 300
_UNUSED_PLUGINS = ("cacheprovider", "xdist", "timeout", "hypothesispytest", "anyio", "pastebin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two revisions that are compared."""

    name: str
    root: Path
    """Its tree: ``harness``, ``workloads`` and ``datasets`` are imported from there."""
    python: Path


@dataclass(slots=True)
class Gathered:
    """The result of a series of pairs."""

    pairs: dict[str, Pairs]
    reasons: dict[str, str]
    """The reason why a metric has no number, in pytest's words, for each side that failed."""

    def __iadd__(self, others: Gathered) -> Gathered:
        """Add the result for other metrics."""
        self.pairs.update(others.pairs)
        self.reasons.update(others.reasons)
        return self


def gather(
    loops: Sequence[Metric],
    baseline: Side,
    tonight: Side,
    *,
    pairs: int,
    seed: int,
    report: Notify,
) -> Gathered:
    """Measure both sides ``pairs`` times, in an order that is drawn for each pair.

    The seed decides the order and the hash seed that the two processes of a pair share."""
    found: dict[str, list[Mapping[str, float]]] = {"baseline": [], "tonight": []}
    reasons: dict[str, str] = {}
    swaps = generator(seed, "nightly", "order").random(pairs) < 0.5
    for number in range(pairs):
        report(f"pair {number + 1} of {pairs}")
        sides = [("baseline", baseline), ("tonight", tonight)]
        for which, side in reversed(sides) if swaps[number] else sides:
            hash_seed = derive_seed(seed, "hash", number) % 2**32
            values, why = sample(side, loops, hash_seed=hash_seed)
            found[which].append(values)
            reasons.update({f"{name} ({which})": text for name, text in why.items()})
    return Gathered(
        pairs={
            loop.name: Pairs(
                baseline=[values.get(loop.name) for values in found["baseline"]],
                tonight=[values.get(loop.name) for values in found["tonight"]],
            )
            for loop in loops
        },
        reasons=reasons,
    )


def sample(
    side: Side, loops: Sequence[Metric], *, hash_seed: int
) -> tuple[Mapping[str, float], Mapping[str, str]]:
    """Run one process of ``side``.

    Returns the least processor time of each loop over a few calls, in seconds, and the reason for
    each loop without a number."""
    with tempfile.TemporaryDirectory(prefix="faultline-nightly-") as scratch:
        document = Path(scratch, "benchmark.json")
        try:
            done = subprocess.run(
                _command(side, loops, document),
                cwd=scratch,
                env=_environment(side, hash_seed),
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            said = f"no end within {_TIMEOUT_S} s"
        values = _read(document, side)
    missing = [loop.name for loop in loops if loop.name not in values]
    return values, {name: _why(name, said) for name in missing}


def _command(side: Side, loops: Sequence[Metric], document: Path) -> list[str]:
    return [
        str(side.python),
        "-P",
        "-m",
        "pytest",
        *("-c", str(BENCHMARKS / "pytest.ini"), "--import-mode=importlib", "-q", "-rfE"),
        *(word for plugin in _UNUSED_PLUGINS for word in ("-p", f"no:{plugin}")),
        "--benchmark-timer=time.process_time",
        "--benchmark-disable-gc",
        f"--benchmark-json={document}",
        *(f"{BENCHMARKS / loop.file}::test_{loop.name}" for loop in loops),
    ]


def _environment(side: Side, hash_seed: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {
        **kept,
        "PYTHONPATH": str(side.root),
        "PYTHONHASHSEED": str(hash_seed),
        "COLUMNS": "1000",  # pytest shortens the reason of a failure to the width of the terminal
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _read(document: Path, side: Side) -> dict[str, float]:
    try:
        benchmarks = json.loads(document.read_text())["benchmarks"]
    except (OSError, ValueError, KeyError):
        return {}
    for each in benchmarks:
        imported = Path(each["extra_info"]["tree"])
        assert imported == side.root.resolve(), f"{side.name} imported the code of {imported}"
    return {each["name"].removeprefix("test_"): float(each["stats"]["min"]) for each in benchmarks}


def _why(name: str, said: str) -> str:
    summary = re.search(rf"^(?:FAILED|ERROR) \S*test_{name}\b(.*)$", said, re.MULTILINE)
    if summary and summary[1].strip(" -"):
        return summary[1].strip(" -")
    errors = re.findall(r"^(?:E  |ERROR|INTERNALERROR>) ?(.*\S)", said, re.MULTILINE)
    lines = errors or said.strip().splitlines() or ["it said nothing"]
    return lines[-1].strip()
