"""Nights that were written can be read; a night that was cut off harms no other."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from harness.errors import UsageError
from harness.nightly.history import ClaimNight, History, MetricNight, Night
from harness.nightly.moves import change_points, moves, steps
from harness.nightly.trends import write_trends
from harness.seeds import generator

MACHINE = "2-cores"


def night(number: int = 0, *, seconds: float = 0.01) -> Night:
    return Night(
        started_unix_s=1.7e9 + 86400 * number,
        seconds=60.0,
        machine_name=MACHINE,
        machine={"cpu": "a processor", "cores": 2, "memory_gib": 8, "system": "Linux"},
        versions={"python": "3.11"},
        commit=f"{number:012x}",
        baseline=f"{number - 1:012x}",
        pairs=5,
        load=[0.1, 0.2],
        metrics={
            "codec": MetricNight(
                verdict="no change",
                seconds=[seconds * (1 + 0.01 * i) for i in range(5)],
                baseline_seconds=[seconds] * 4 + [None],
                ratio=1.02,
                low=1.0,
                high=1.04,
            )
        },
        claims=[
            ClaimNight(
                experiment="a/b",
                profile="quick",
                text="t",
                kind="paper",
                held=None,
                numbers={"times": 11.5},
            )
        ],
    )


def test_what_was_written_is_read(tmp_path: Path) -> None:
    history = History(tmp_path)
    for number in range(3):
        history.append(night(number))
    assert list(history.read(MACHINE)) == [night(number) for number in range(3)]
    assert list(history.machines()) == [MACHINE]
    assert history.read("another machine") == []


def test_a_night_that_was_cut_off_is_left_out_and_set_aside(tmp_path: Path) -> None:
    said: list[str] = []
    history = History(tmp_path, warn=said.append)
    path = history.append(night(0))
    history.append(night(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert list(history.read(MACHINE)) == [night(0)]
    assert "middle of a line" in said[0]
    history.append(night(2))
    assert list(history.read(MACHINE)) == [night(0), night(2)]
    assert path.with_suffix(".broken").read_bytes().startswith(b'{"schema"')


WHOLE = asdict(night(0))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "line 2: not a night"),
        ('{"no": "schema"}', "line 2: not a night"),
        (json.dumps({**WHOLE, "schema": 99}), "schema 99.*\n.*update this checkout"),
        (json.dumps({name: WHOLE[name] for name in WHOLE if name != "metrics"}), "line 2"),
    ],
)
def test_a_line_that_is_no_night_is_named(tmp_path: Path, line: str, words: str) -> None:
    history = History(tmp_path)
    path = history.append(night(0))
    path.write_text(path.read_text() + line + "\n")
    history.append(night(1))
    with pytest.raises(UsageError, match=words):
        history.read(MACHINE)


def test_a_level_is_that_of_its_own_nights() -> None:
    """Levels of 1, 2 and 1 were said to move by 49 % up and 33 % down."""
    nights = np.repeat([1.0, 2.0, 1.0], 20)
    points = change_points(nights.tolist())
    assert steps(nights, points) == pytest.approx([1.0, -0.5])
    assert steps(nights, []) == []


def test_trends_show_every_machine_and_no_network(tmp_path: Path) -> None:
    history = History(tmp_path)
    for number in range(8):
        history.append(night(number, seconds=0.01 if number < 4 else 0.02))
    history.append(replace(night(9), machine_name="8-cores", alarms=["codec: 1.2 times"]))
    path = write_trends(history)
    text = path.read_text()
    assert "<code>2-cores</code>" in text
    assert "<code>8-cores</code>" in text
    assert "codec: 1.2 times" in text
    assert "a/b (quick): times. t" in text
    assert "index.html" not in text, "there is no report to link to"
    (path.parent / "index.html").touch()
    write_trends(history)
    assert '<a href="index.html">' in path.read_text()
    assert "http://" not in text
    assert "https://" not in text


def history_of(levels: list[float]) -> list[Night]:
    noise = generator(3, "history").normal(0.0, 0.01, len(levels))
    return [
        night(number, seconds=level * (1 + shift))
        for number, (level, shift) in enumerate(zip(levels, noise, strict=True))
    ]


def test_a_move_is_found_once_with_the_commits_on_both_of_its_sides() -> None:
    nights = history_of([0.01] * 10 + [0.013] * 8)
    found = [(number, move) for number in range(1, 19) for move in moves(nights[:number])]
    ((number, move),) = found
    assert number == 14, "the fourth night on the new level"
    assert move.worse
    assert move.step == pytest.approx(0.3, abs=0.03)
    assert (move.before, move.after) == (nights[9].commit, nights[10].commit)
    assert f"moved by {move.step:+.0%} in the commits from" in move.sentence(lambda *_: [])


def test_an_outage_that_grew_is_a_move_in_seconds() -> None:
    outages = [0.0] * 10 + [4.0] * 8
    nights = [
        replace(night(number), metrics={"kill_tasks_outage": replace(
            night().metrics["codec"], seconds=[value] * 5, unit="s")})
        for number, value in enumerate(outages)
    ]  # fmt: skip
    (move,) = [move for number in range(1, 19) for move in moves(nights[:number])]
    assert move.worse
    assert "moved by +4 s with the commit a (subject)" in move.sentence(lambda *_: ["a (subject)"])


def test_a_move_with_the_same_code_is_the_machines() -> None:
    nights = [replace(one, commit="a") for one in history_of([0.01] * 10 + [0.013] * 8)]
    (move,) = [move for number in range(1, 19) for move in moves(nights[:number])]
    assert not move.worse
    assert "with the same code, a: the machine did" in move.sentence(lambda *_: [])
