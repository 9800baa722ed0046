"""Passes of two sides take turns, and a missing number has a reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.nightly import live
from harness.nightly.metrics import LIVE_RATIOS
from harness.nightly.sampling import Gathered, Side

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
    with open(side["log"], "a") as log: log.write(f"{side['name']} {order['pass']}\\n")
    if passes in side.get("fails", []):
        say(event="failed", order=number, why="RuntimeError: the broker is gone")
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


def gathered(old: Side, new: Side) -> Gathered:
    return live.gather_live(LIVE_RATIOS, old, new, pairs=5, seed=1, report=lambda text: None)


def test_the_sides_take_turns_and_a_ratio_is_of_equal_numbers(log: Path) -> None:
    found = gathered(side(log, "old"), side(log, "new", tasks=2.0))
    pairs = found.pairs["live_latency"]
    assert pairs.baseline == pytest.approx([0.1] * 5)
    assert pairs.tonight == pytest.approx([0.2] * 5)
    lines = log.read_text().splitlines()
    turns = [{lines[at], lines[at + 1]} for at in range(0, len(lines), 2)]
    assert turns == [{"old tasks", "new tasks"}] * 5 + [{"old structured", "new structured"}] * 5
    assert not found.reasons


def test_a_pass_that_failed_has_no_number_and_a_reason(log: Path) -> None:
    found = gathered(side(log, "old"), side(log, "new", fails=[1]))
    tonight = found.pairs["live_cpu"].tonight
    assert [value is None for value in tonight] == [False, True, False, False, False]
    assert "the broker is gone" in found.reasons["live_cpu (tonight)"]
    assert "live_cpu (baseline)" not in found.reasons


def test_a_side_that_cannot_start_is_no_number_for_anything(log: Path) -> None:
    found = gathered(side(log, "old", broken=True), side(log, "new"))
    assert set(found.pairs["live_cpu"].baseline) == {None}
    assert "no Java here" in found.reasons["live_cpu (baseline)"]


def test_an_answer_that_came_too_late_is_not_taken_for_the_next_one(log: Path) -> None:
    found = gathered(side(log, "old", answers_late=True), side(log, "new"))
    assert found.pairs["live_latency"].baseline == pytest.approx([0.1] * 5)


def test_a_side_that_leaves_an_order_unanswered_is_asked_no_more(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_OPEN_S", 0.2)
    found = gathered(side(log, "old", deaf=True), side(log, "new"))
    assert set(found.pairs["live_cpu"].baseline) == {None}
    assert "nothing came" in found.reasons["live_cpu (baseline)"]
