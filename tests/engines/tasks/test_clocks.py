"""Instants of two machines by one clock."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.cluster.spark import REPOSITORY
from harness.engines.tasks.ports import Clock


def test_processes_of_one_machine_share_a_clock() -> None:
    program = (
        "import json; from dataclasses import asdict; "
        "from harness.engines.tasks.ports import Clock; "
        "print(json.dumps(asdict(Clock.here())))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, check=True, text=True
    )
    other = Clock(**json.loads(said.stdout))
    assert Clock.here().shift_us(other) == 0


def test_between_machines_the_wall_clocks_decide() -> None:
    here = Clock(machine="a", ahead_us=1_000)
    there = Clock(machine="b", ahead_us=250)
    at_there, wall_us = 40, 40 + 250
    assert at_there + here.shift_us(there) == wall_us - here.ahead_us
    assert there.shift_us(here) == -here.shift_us(there)
