"""A record depends on the code that its measurement reaches, and on nothing else."""

from __future__ import annotations

import ast
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.cluster.backends import BACKENDS
from harness.experiment import Experiment
from harness.results import reach
from harness.results.provenance import ROOT
from harness.results.reach import (
    CHOSEN_FROM,
    LIVE_MEASUREMENT,
    MEASUREMENT,
    NOT_MEASURING,
    code_fingerprint,
    reached,
)
from harness.running.code import names_of, roots_of
from harness.running.discovery import all_experiments
from tests.levels import deep
from tests.there import there

ROOTS = {e.measurement.id: roots_of(e.measurement, BACKENDS["local"]) for e in all_experiments()}
WORKER_KILL = ROOTS["stock/worker-kill"]
FLINK, PEERS, TASKS = "intervals/flink-live", "live/peers", "live/recovery"
LIVE = {FLINK, PEERS, TASKS, "stock/worker-kill"}
SOME = [*sorted(LIVE), "ppa/multi-query"]
DATA = [
    path.relative_to(ROOT).as_posix()
    for top in ("harness", "workloads", "datasets", "experiments")
    for path in sorted((ROOT / top).rglob("*"))
    if path.is_file() and path.suffix not in (".py", ".pyc", ".md", ".j2", ".css", ".js")
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy all code that a record can depend on."""
    copy = tmp_path_factory.mktemp("checkout")
    for top in ("harness", "workloads", "datasets", "experiments"):
        shutil.copytree(ROOT / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "requirements.lock", copy)
    return copy


@pytest.fixture
def checkout(whole: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the copy in the place of this checkout; each test undoes its changes there."""
    monkeypatch.setattr(reach, "ROOT", whole)
    return whole


@pytest.fixture(scope="module")
def unchanged(whole: Path) -> Mapping[str, str]:
    """Return the fingerprints of `SOME` before any change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "ROOT", whole)
        return {name: code_fingerprint(ROOTS[name]) for name in SOME}


def differing(unchanged: Mapping[str, str]) -> set[str]:
    return {name for name, before in unchanged.items() if code_fingerprint(ROOTS[name]) != before}


def changes(checkout: Path, roots: Iterable[str], file: str, before: str, after: str) -> bool:
    """Return True if an edit changes the fingerprint; an empty ``before`` appends ``after``."""
    path = checkout / file
    text = path.read_text() if path.exists() else ""
    old = code_fingerprint(roots)
    assert before in text, f"{file} does not say {before!r}"
    edited = text.replace(before, after, 1) if before else text + after
    with other_content(path, edited.encode()):
        changed = code_fingerprint(roots) != old
    assert code_fingerprint(roots) == old
    return changed


@contextmanager
def other_content(path: Path, content: bytes | None) -> Iterator[None]:
    """Give a file another content for a while; None: it is not there."""
    before = path.read_bytes() if path.exists() else None
    _put(path, content)
    try:
        yield
    finally:
        _put(path, before)


def _put(path: Path, content: bytes | None) -> None:
    """Write a file with a time of its own: two edits within a clock's tick would look alike."""
    if content is None:
        path.unlink()
        return
    path.write_bytes(content)
    now = time.time_ns() + next(_EDITS) * 1_000_000
    os.utime(path, ns=(now, now))


_EDITS = itertools.count()


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("harness/stock_kills/own.py", "RATE_PER_S = 500.0", "RATE_PER_S = 501.0"),
        ("harness/judging/passes.py", "DRAIN_S = 90.0", "DRAIN_S = 91.0"),
        ("harness/load/child.py", "_REPORT_S = 0.5", "_REPORT_S = 0.6"),
        ("harness/engines/structured/driver.py", "POLL_S = 0.1", "POLL_S = 0.2"),
        ("harness/cluster/processes.py", "", "SOMETHING = 1\n"),
        ("requirements.lock", "pyspark==4", "pyspark==5"),
        ("requirements.lock", "py4j==0", "py4j==1"),
    ],
    ids=["own module", "engine", "child by -m", "driver by -m", "backend", "pin", "its own pin"],
)
def test_what_can_change_a_measurement_discards_it(
    checkout: Path, file: str, before: str, after: str
) -> None:
    assert changes(checkout, WORKER_KILL, file, before, after)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("harness/judging/passes.py", '"""One pass:', '"""Once more, one pass:'),
        ("harness/judging/passes.py", "import secrets", "import secrets  # of course"),
        ("harness/planning/greedy.py", "", "SOMETHING = 1\n"),
        ("harness/protocol/task.py", "", "SOMETHING = 1\n"),
        ("harness/pages/report.py", "", "SOMETHING = 1\n"),
        ("harness/cluster/backends.py", "DEFAULT =", "MORE = 1\nDEFAULT ="),
        ("harness/cluster/another.py", "", "class AnotherCluster: ...\n"),
        ("harness/engines/kinds.py", "ENGINES:", "MORE = 1\nENGINES:"),
        ("requirements.lock", "jupyterlab==", "jupyterlab==9."),
    ],
    ids=[
        "docstring", "comment", "a planner", "another engine's protocol", "the report",
        "a backend in the list", "a backend's file", "an engine in the list", "an unused pin",
    ],
)  # fmt: skip
def test_what_cannot_change_a_measurement_keeps_it(
    checkout: Path, file: str, before: str, after: str
) -> None:
    assert not changes(checkout, WORKER_KILL, file, before, after)


def depend_on(file: str) -> set[str]:
    """Return those of `SOME` whose records are to depend on a data file."""
    if file.startswith("harness/engines/flink/"):
        return {FLINK, PEERS}
    if file.startswith("harness/engines/kafka_streams/"):
        return {PEERS}
    servers = ("jars.lock.json", "jre.lock", "redis.lock")
    return LIVE if file in [f"harness/environment/{name}" for name in servers] else set()


@pytest.mark.parametrize("file", DATA)
def test_a_data_file_counts_for_those_who_read_it(
    checkout: Path, unchanged: Mapping[str, str], file: str
) -> None:
    path = checkout / file
    with other_content(path, path.read_bytes() + b" "):
        assert differing(unchanged) == depend_on(file)


@pytest.mark.parametrize(
    ("file", "before", "after", "whose"),
    [
        ("harness/seeds.py", 'join([str(root), *', 'join(["x", str(root), *', set(SOME)),
        ("harness/seeds.py", "repeat, *names)", "repeat + 1, *names)", set(SOME)),
        ("harness/running/measured.py", "if name == WARM_UP:", "if True:", LIVE),
        ("harness/running/warm_cluster.py", "if warm.spec != spec:", "if True:", LIVE),
        ("harness/running/computed.py", "self.measurement, self.repeat", "self.measurement, 0",
         set(SOME)),
        ("harness/judging/foreign.py", "HIGH_STEAL = 0.10", "HIGH_STEAL = 0.11", LIVE),
        ("harness/running/execution.py", "ATTEMPTS = 3", "ATTEMPTS = 4", set()),
        ("harness/running/plan.py", "def grouped(", "def grouped_(", set()),
        ("harness/running/durations.py", "", "SOMETHING = 1\n", set()),
        ("harness/planning/planners.py", '    Entry(\n        name="inc",',
         '    Entry(name="first", target="harness.planning.greedy:First"),\n'
         '    Entry(\n        name="inc",', set()),
        ("harness/planning/planners.py", "greedy:Greedy", "greedy:Greedier", {"ppa/multi-query"}),
        ("harness/planning/planners.py", "return BY_NAME[name]", "return 1, BY_NAME[name]",
         {"ppa/multi-query"}),
        ("harness/protocol/schemes.py", '        "dpc": Family(',
         '        "thrice": Family("t", "t", Recovery.LOCAL),\n        "dpc": Family(', set()),
        ("harness/protocol/schemes.py", "Replicas.ALL,", "Replicas.NONE,", {FLINK, PEERS, TASKS}),
        ("harness/protocol/schemes.py", "Closing.TASK,", "None,", set()),
    ],
)  # fmt: skip
def test_what_surrounds_a_run_counts(
    checkout: Path, file: str, before: str, after: str, whose: set[str]
) -> None:
    assert {name for name in SOME if changes(checkout, ROOTS[name], file, before, after)} == whose


@pytest.mark.parametrize("experiment", all_experiments(), ids=lambda e: e.id)
def test_every_experiment_says_what_it_chooses_by_name(experiment: Experiment) -> None:
    measurement = experiment.measurement
    parts = reached([measurement.root, *measurement.chooses])
    assert measurement.root in parts
    for chosen in measurement.chooses:
        assert chosen in parts, f"{experiment.id} chooses {chosen}, which does not exist"
    if "harness.judging.run" in parts:
        assert measurement.measured
        engines = [name for name in measurement.chooses if name.startswith("harness.engines.")]
        assert engines, f"{experiment.id} finds its engine by name: say which in `chooses`"


def halves(path: Path) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the definitions of an experiment's module up to its last measurement, and after it."""
    body = ast.parse(path.read_text()).body
    names = [ast.unparse(each).split(" = ")[0] for each in body]
    at = max((names.index(name) for name in MEASUREMENTS if name in names), default=-1)
    return body[: max(at, 0)], body[at + 1 :]  # without one it shows another module's runs


MEASUREMENTS = (MEASUREMENT, LIVE_MEASUREMENT)
FIGURES = sorted((ROOT / "experiments").glob("*/[!_]*.py"))


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_the_halves_of_a_figure_are_told_apart(path: Path) -> None:
    """The measuring halves come first, the rest after a line that marks it."""
    text = path.read_text()
    assert text.count("# Shown: no record depends on what follows.") == 1
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    parts = reached([f"{module}:{name}" for name in MEASUREMENTS])
    above, below = halves(path)
    shown = {f"{module}:{name}" for each in below for name in reach._bound(each)}
    assert not shown & parts, "a run depends on what stands in the shown half"
    marked = text.find("# Shown")
    assert all(marked > text.find(f"{name} = ") for name in MEASUREMENTS if above)


@pytest.mark.parametrize(
    "name", ["ppa.multi_query", *deep("ppa.query_fidelity", "intervals.adaptive", "dpc.properties")]
)
def test_nothing_runs_that_is_not_reached(name: str) -> None:
    """A run's own process reports the loaded modules, which reveals dynamic imports."""
    script = (
        "import importlib, json, sys\n"
        "from tests.experiments.smoke import SmokeContext\n"
        "from harness.results.record import Profile\n"
        f"e = importlib.import_module('experiments.{name}').EXPERIMENT\n"
        "e.measurement.run(e.grid[Profile.SMOKE][0], SmokeContext(e))\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    ours = ("harness", "workloads", "datasets", "experiments")
    loaded = {m for m in json.loads(done.stdout.splitlines()[-1]) if m.split(".")[0] in ours}
    left_out = {m for m in loaded if m in CHOSEN_FROM or m.startswith(NOT_MEASURING)}
    # A module of an experiment also loads what its shown half uses, and does not run it.
    figures = [each for each in loaded if each.startswith("experiments.")]
    whole = {f"{each}:{name}" for each in figures for name in bound_in(each)}
    seeds = "harness.seeds"  # what describes a measurement loads it
    (measurement,) = (
        each.measurement
        for each in all_experiments()
        if each.measurement.root == f"experiments.{name}:{MEASUREMENT}"
    )
    # The live counterpart in the same module loads the lists, and they load what they list.
    listed = {used for each in loaded & CHOSEN_FROM for used in uses_of(each)}
    roots = [measurement.root, *whole, *listed, seeds]
    assert loaded - left_out <= reached(roots, names_of(measurement))


def uses_of(module: str) -> frozenset[str]:
    return reach._parsed(there(reach._file(module)), 0).uses


def bound_in(module: str) -> list[str]:
    body = ast.parse(there(reach._file(module)).read_text()).body
    return [name for each in body for name in reach._bound(each)]


@pytest.mark.parametrize("gone", [True, False], ids=["removed", "added"])
def test_a_class_that_comes_or_goes_counts(
    checkout: Path, unchanged: Mapping[str, str], gone: bool
) -> None:
    shipped = checkout / "harness/engines/flink/classes/faultline/Paced.class"
    new = shipped.parents[1] / "Paced.class"
    with other_content(shipped, None) if gone else other_content(new, shipped.read_bytes()):
        assert differing(unchanged) == {FLINK, PEERS}


def test_byte_code_does_not_count(checkout: Path, unchanged: Mapping[str, str]) -> None:
    """A module reached by every run of word count has the word ``__pycache__`` as a string."""
    cached = checkout / "datasets" / "__pycache__" / "text.cpython-311.pyc"
    cached.parent.mkdir()
    with other_content(cached, b"any"):
        assert not differing(unchanged)
    cached.parent.rmdir()
