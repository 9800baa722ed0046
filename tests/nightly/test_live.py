"""Passes of two sides take turns, and a missing number has a reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest

from benchmarks.nightly.live_side import Passes, numbers_of
from harness.judging.outcome import judge
from harness.measure.windows import LATER_S
from harness.nightly import live
from harness.nightly.metrics import ENGINES, LIVE_RATIOS, RECOVERIES, Metric
from harness.nightly.sampling import Gathered, Side
from harness.results.provenance import ROOT
from tests.judging import constructed
from tests.judging.constructed import SCHEDULE, WORKLOAD, record, truth
from tests.judging.test_again import lost, twice, wrong

TOY = """
import json, os, sys
from pathlib import Path
tree = os.environ["PYTHONPATH"]
side = json.loads(Path(tree, "side.json").read_text())
def say(**event): print(json.dumps(event), flush=True)
if side.get("broken"):
    sys.exit("no Java here")
say(event="ready", tree=tree)
passes = -1
for line in sys.stdin:
    order = json.loads(line)
    number = order["order"]
    if "open" in order:
        if side.get("deaf"):
            continue
        say(event="opened", order=number)
        continue
    passes += 1
    what = "kill" if "kill" in order else "pass"
    with open(side["log"], "a") as log: log.write(f"{side['name']} {what} {order[what]}\\n")
    if passes in side.get("fails", []):
        say(event="failed", order=number, why="RuntimeError: the broker is gone")
        continue
    if what == "kill":
        say(event="done", order=number, lost=0, repeated=0, wrong=0, **side["kill"])
        continue
    cost = side[order["pass"]]
    if side.get("answers_late") and passes:
        say(event="done", order=number - 1, cpu_s_per_record=99.0, latency_p50_s=99.0)
    say(
        event="done", order=number, latency_p50_s=cost,
        cpu_s_per_record=cost * 1e-6 * (1 + 0.01 * (passes % 3)),
    )
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "toy.py"
    program.write_text(TOY)
    monkeypatch.setattr(live, "PROGRAM", program)
    return tmp_path / "log"


def side(log: Path, name: str, **settings: object) -> Side:
    root = log.parent / name
    root.mkdir()
    document = {"name": name, "log": str(log), "tasks": 1.0, "structured": 10.0, **settings}
    (root / "side.json").write_text(json.dumps(document))
    return Side(name=name, root=root, python=Path(sys.executable))


def gathered(old: Side, new: Side, metrics: Sequence[Metric] = LIVE_RATIOS) -> Gathered:
    return live.gather_live(metrics, old, new, seed=1, report=lambda text: None)


def test_the_sides_take_turns_and_a_ratio_is_of_equal_numbers(log: Path) -> None:
    found = gathered(side(log, "old"), side(log, "new", tasks=2.0))
    pairs = found.pairs["live_latency"]
    assert pairs.baseline == pytest.approx([0.1] * 8)
    assert pairs.tonight == pytest.approx([0.2] * 8)
    lines = log.read_text().splitlines()
    turns = [{lines[at], lines[at + 1]} for at in range(0, len(lines), 2)]
    assert turns == [
        {f"{name} pass {engine}" for name in ("old", "new")} for engine in ENGINES for _ in range(8)
    ]
    assert not found.reasons


def test_a_pass_that_failed_has_no_number_and_a_reason(log: Path) -> None:
    found = gathered(side(log, "old"), side(log, "new", fails=[1]))
    tonight = found.pairs["live_cpu"].tonight
    assert [value is None for value in tonight] == [number == 1 for number in range(8)]
    assert "the broker is gone" in found.reasons["live_cpu (tonight)"]
    assert "live_cpu (baseline)" not in found.reasons


def test_a_side_that_cannot_start_is_no_number_for_anything(log: Path) -> None:
    found = gathered(side(log, "old", broken=True), side(log, "new"))
    assert set(found.pairs["live_cpu"].baseline) == {None}
    assert "no Java here" in found.reasons["live_cpu (baseline)"]


def test_an_answer_that_came_too_late_is_not_taken_for_the_next_one(log: Path) -> None:
    found = gathered(side(log, "old", answers_late=True), side(log, "new"))
    assert found.pairs["live_latency"].baseline == pytest.approx([0.1] * 8)


def test_a_side_that_leaves_an_order_unanswered_is_asked_no_more(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(live._WITHIN_S, "open", 0.2)
    found = gathered(side(log, "old", deaf=True), side(log, "new"))
    assert set(found.pairs["live_cpu"].baseline) == {None}
    assert "nothing came" in found.reasons["live_cpu (baseline)"]


def test_kills_are_pairs_of_their_own_and_need_no_passes(log: Path) -> None:
    found = gathered(
        side(log, "old", kill={"outage_s": 2.0}),
        side(log, "new", kill={"outage_s": None, "why": "the twin fell behind"}),
        [metric for metric in RECOVERIES if ("structured", "kill") in metric.turns],
    )
    assert found.pairs["kill_structured_outage"].baseline == [2.0] * 3
    assert found.pairs["kill_structured_outage"].tonight == [None] * 3
    assert found.pairs["kill_structured_lost"].tonight == [0] * 3
    assert found.reasons == {"kill_structured_outage (tonight)": "the twin fell behind"}
    lines = log.read_text().splitlines()
    assert sorted(lines) == ["new kill structured"] * 3 + ["old kill structured"] * 3


BUSY = """
import os, sys, threading
from pathlib import Path
from benchmarks.nightly.live_side import orders_until_end
from harness.child import speaker
say = speaker()
say({"event": "ready", "tree": os.environ["PYTHONPATH"]})
try:
    for order in orders_until_end():
        print(f"pid {os.getpid()}", file=sys.stderr, flush=True)
        threading.Event().wait()
finally:
    Path(os.environ["PYTHONPATH"], "stopped").touch()
"""
NIGHT = """
import signal, sys
from pathlib import Path
from harness.cli.output import interrupted_by
from harness.nightly import live
from harness.nightly.metrics import LIVE_RATIOS
from harness.nightly.sampling import Side
live.PROGRAM = Path(sys.argv[1])
old, new = (Side(name=each, root=Path(each), python=Path(sys.executable)) for each in sys.argv[2:])
with interrupted_by(signal.SIGTERM):
    live.gather_live(LIVE_RATIOS, old, new, seed=1, report=lambda text: print(text, flush=True))
"""


def test_the_end_of_a_night_ends_both_sides_in_the_middle_of_an_order(tmp_path: Path) -> None:
    program, sides = tmp_path / "busy.py", [tmp_path / "old", tmp_path / "new"]
    program.write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n{BUSY}")
    for each in sides:
        each.mkdir()
    command = [sys.executable, "-P", "-c", NIGHT, str(program), *map(str, sides)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as night:
        assert night.stdout is not None
        for line in night.stdout:
            if "starting tasks on both sides" in line:
                break
        pids = {wait_for_pid(log) for log in tmp_path.glob("faultline-nightly-*/*.log")}
        assert len(pids) == 2
        night.terminate()
        _, said = night.communicate(timeout=live._STOP_S)
    assert "KeyboardInterrupt" in said, said
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert all((each / "stopped").exists() for each in sides), "they stopped their clusters"
    assert not [*tmp_path.glob("faultline-nightly-*")]


def wait_for_pid(log: Path) -> int:
    """Return the pid that a side writes when it carries out an order."""
    while True:
        if found := re.search(r"pid (\d+)\n", log.read_text()):
            return int(found[1])
        time.sleep(0.01)


def test_a_kill_that_hit_nothing_is_made_again_and_then_no_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []

    def killed(self: Passes, engine: str, seed: int) -> object:
        seeds.append(seed)
        return SimpleNamespace(invalid="failures: the kill of r1 at 6 s hit nothing", again=None)

    monkeypatch.setattr(Passes, "_killed", killed)
    with pytest.raises(RuntimeError, match="hit nothing"):
        Passes(None, None, 1.0).kill("tasks", {"seed": 1, "later_s": LATER_S})
    assert len(set(seeds)) == 2, "the second attempt is another kill"


def test_another_yardstick_is_no_comparison() -> None:
    with pytest.raises(RuntimeError, match=r"counts results from 1 s .* the other one from 2 s"):
        Passes(None, None, 1.0).kill("tasks", {"seed": 1, "later_s": 2.0})


@pytest.mark.parametrize(
    ("spoil", "errors"), [(lost, {"lost": 1}), (twice, {"repeated": 1}), (wrong, {"wrong": 1})]
)
def test_the_numbers_of_a_kill_are_the_judges(
    spoil: Callable[[pd.DataFrame], pd.DataFrame], errors: Mapping[str, int]
) -> None:
    outcome = judge(
        record(name="twin"),
        record(spoil(constructed.deliveries()), failures=constructed.injected()),
        truth(), workload=WORKLOAD, schedule=SCHEDULE, trigger_s=1.0, settle_s=0.0,
    )  # fmt: skip
    found = numbers_of(outcome, WORKLOAD)
    assert {name: found[name] for name in ("lost", "repeated", "wrong")} == {
        "lost": 0, "repeated": 0, "wrong": 0, **errors
    }  # fmt: skip
    assert found["outage_s"] == outcome.values["outage_s"]
