"""Four additions, each made in a copy of this tree, in at most three places.

docs/adding.md must name the same places."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.results.provenance import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One addition to the tree."""

    heading: str
    """Its section in docs/adding.md."""
    new: Mapping[str, str] = field(default_factory=dict)
    """Files that are added, with their text."""
    edited: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Files that are edited: a text that is there once, and the text in its place."""
    shows: str
    """Python code that fails unless the tree has the addition."""
    run: tuple[str, ...] = ()
    """A command line of ``faultline`` that must succeed."""


WORKLOAD = Change(
    heading="A workload",
    new={
        "workloads/lengths.py": '''"""Lengths of lines, the smallest workload."""

from __future__ import annotations

from workloads.base import QUERY, Entry, Reference, Source, Workload


def lengths(*, seed: int = 0) -> Workload:
    """Count the lines of each length in every second."""
    parameters = {"paths": [], "partitions": 1, "seed": seed}
    lines = Reference(target="datasets.text:TextLines", parameters=parameters)
    return Workload(
        name="lengths",
        sources=[Source(name="lines", records=lines, partitions=1)],
        forms={QUERY: _query},
        identity=["window_start", "length"],
        values=["count"],
        window_start="window_start",
        window_s=1,
        slide_s=1,
        watermark_delay_s=1,
        reference=Reference(target="workloads.lengths:lengths", parameters={"seed": seed}),
    )


def _query(spark, sources):
    from pyspark.sql import functions as F

    lines = sources["lines"].withWatermark("timestamp", "1 second")
    window = F.window("timestamp", "1 second")
    kept = F.count(F.when(F.length("value") > 0, 1))  # a marker is empty
    counted = lines.groupBy(window, F.length("value").alias("length")).agg(kept.alias("count"))
    counted = counted.where(F.col("count") > 0)
    return counted.select(F.col("window.start").alias("window_start"), "length", "count")


ENTRY = Entry(
    name="lengths", label="lengths of lines", paper="", make=lengths, paper_rate_per_s=None
)
'''
    },
    shows="""
from workloads.entries import workload_entry
made = workload_entry("lengths").make(seed=1)
assert made.reference.build().columns == ["window_start", "length", "count"]
""",
)

SCHEME = Change(
    heading="A scheme",
    edited={
        "harness/protocol/schemes.py": (
            '        "dpc": Family(',
            '        "everything": Family(\n'
            '            label="everything",\n'
            '            summary="a replica of every task, and checkpoints",\n'
            "            recovery=Recovery.LOCAL,\n"
            "            replicas=Replicas.ALL,\n"
            "        ),\n"
            '        "dpc": Family(',
        ),
        "harness/figures/style.py": (
            '    "rppg": Look("RPPG", PURPLE, "^"),\n}',
            '    "rppg": Look("RPPG", PURPLE, "^"),\n'
            '    "everything": Look("everything", BLACK, "x"),\n}',
        ),
    },
    shows="""
from harness.cluster.base import ClusterSpec, Node
from harness.engines.base import Setup
from harness.engines.kinds import find_engine
from harness.engines.tasks.choices import scheme_of
from harness.engines.tasks.systems import setup_of
from harness.engines.tasks.job import wiring_for
from harness.engines.tasks.parameters import TaskParameters
from workloads.wordcount import word_count

tasks, words = find_engine("tasks"), word_count(depth=4)
assert tasks.schemes["everything"].summary == "a replica of every task, and checkpoints"
spec = ClusterSpec(racks=2)
assert tasks.lacks(Setup(scheme="everything"), words, spec) is None
nodes = [Node(name=f"n{n}", rack=f"r{n}", worker=f"w{n}", host="127.0.0.1") for n in range(2)]
setup = setup_of("everything", words, nodes, rate_per_s=100, parameters=TaskParameters())
wiring = wiring_for(words, 100_000, {})
assert scheme_of(setup, wiring, 0.1).replicated == tuple(wiring.tasks)
""",
    run=("simulate", "--seeds", "1..3", "--scheme", "everything"),
)

PLANNER = Change(
    heading="A planner",
    new={
        "harness/planning/last.py": '''"""The tasks nearest to the sinks."""

from __future__ import annotations

import numpy as np

from harness.planning.base import Planner


class Last(Planner):
    """Replicates from the last task on, as far as the budget goes."""

    name = "last"

    def _choose(self, evaluator, budget):
        costs = evaluator.topology.costs
        return np.cumsum(costs[::-1])[::-1] <= budget, None
'''
    },
    edited={
        "harness/planning/planners.py": (
            '    Entry(\n        name="inc",',
            '    Entry(\n        name="last",\n        label="last",\n'
            "        decides=Decides.REPLICATION,\n"
            '        about="the tasks nearest to the sinks",\n'
            '        paper="",\n        target="harness.planning.last:Last",\n    ),\n'
            '    Entry(\n        name="inc",',
        ),
        "harness/figures/style.py": (
            '    "exhaustive": Look(',
            '    "last": Look("last", ORANGE, "<"),\n    "exhaustive": Look(',
        ),
    },
    shows="""
from harness.planning.planners import Decides, names
assert "last" in names(Decides.REPLICATION)
""",
    run=("plan", "topology.yaml", "--budget", "50%", "--planner", "last"),
)

FIGURE = Change(
    heading="A figure",
    new={
        "experiments/intervals/squares.py": '''"""Squares rise."""

from __future__ import annotations

from harness.claims import hypothesis
from harness.experiment import Experiment
from harness.measurement import Measurement, Origin
from harness.results.record import Outcome, Profile


def run(point, context):
    return Outcome(values={"y": point["x"] ** 2})


MEASUREMENT = Measurement(
    id="intervals/squares",
    origin=Origin.COMPUTED,
    grid={profile: [{"x": 1}, {"x": 2}] for profile in Profile},
    repeats=dict.fromkeys(Profile, 1),
    seconds_per_run=dict.fromkeys(Profile, 0.1),
    run=run,
)

# Shown: no record depends on what follows.


def table(results):
    return results.frame[["x", "y"]].sort_values("x")


def draw(table, figure):
    figure.subplots().plot(table["x"], table["y"])


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="squares",
    title="Squares",
    statement="Squares rise.",
    table=table,
    draw=draw,
    claims=[hypothesis("rises", "y rises with x").grows(lambda t: t.set_index("x")["y"])],
)
'''
    },
    edited={"experiments/README.md": ("# Experiments", "# Experiments")},
    shows="""
from harness.running.discovery import catalogue_markdown, find
assert find(["intervals/squares"])
assert "./faultline run intervals/squares" in catalogue_markdown()
""",
    run=("run", "intervals/squares", "--profile", "quick", "--out", "results-of-the-test"),
)

CHANGES = (WORKLOAD, SCHEME, PLANNER, FIGURE)

TOPOLOGY = """
operators:
  - {name: source, parallelism: 2, rate: 10}
  - {name: sink, parallelism: 1, selectivity: 1}
edges:
  - {from: source, to: sink, partitioning: merge}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for top in ("harness", "workloads", "datasets", "experiments"):
        shutil.copytree(ROOT / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    return tmp_path


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.deep
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.heading)
def test_a_change_touches_few_places(tree: Path, change: Change) -> None:
    assert python(tree, "-c", change.shows).returncode != 0, "it is there already"
    for name, text in change.new.items():
        assert not (tree / name).exists()
        (tree / name).write_text(text)
    for name, (before, after) in change.edited.items():
        whole = (tree / name).read_text()
        assert whole.count(before) == 1, f"{name} does not have {before!r} once"
        (tree / name).write_text(whole.replace(before, after))
    shown = python(tree, "-c", change.shows)
    assert shown.returncode == 0, shown.stderr
    if change.run:
        ran = python(tree, "-m", "harness.cli", *change.run)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.heading)
def test_contributing_names_the_places(change: Change) -> None:
    touched = [*change.new, *change.edited]
    assert len(touched) <= 3
    text = (ROOT / "docs" / "adding.md").read_text()
    section = re.search(rf"^## {change.heading}\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/adding.md has no section {change.heading!r}"
    for name in change.edited:
        assert f"`{name}`" in section[1], f"{change.heading}: {name} is not named"
    for name in change.new:
        assert f"`{Path(name).parent}/" in section[1], f"{change.heading}: no file under {name}"
