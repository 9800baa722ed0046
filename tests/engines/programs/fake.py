"""A cluster of one node that starts programs as child processes, over an imitated broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.cluster.base import Action, RunningProgram
from harness.cluster.run_directory import write_private
from harness.engines.programs.engine import TRUTH
from tests.engines.toy import NODE, NUMBERS, ToyCluster
from workloads.base import Reference, Workload

WINDOW_MS = 200
MADE_UP = Path(__file__).parent.parent / "made_up.py"
DESCRIPTION = f"""
name: made-up
command: ["{{python}}", "{MADE_UP}"]
form: sums
"""


def due(sources: Mapping[str, pa.Table]) -> Any:
    """Return the sum of the numbers of each window."""
    frame = sources["numbers"].to_pandas()
    frame = frame[frame["value"].str.len() > 0]
    at_ms = frame["timestamp"].astype("datetime64[ms]").astype("int64")
    numbers = frame["value"].map(lambda value: int(value.split(b":")[1]))
    sums = numbers.groupby(at_ms - at_ms % WINDOW_MS).sum()
    return sums.rename_axis("window_start").rename("sum").reset_index()


WORKLOAD = Workload(
    name="sums",
    sources=[NUMBERS],
    forms={"sums": "as it is", TRUTH: Reference(target="tests.engines.programs.fake:due")},
    identity=["window_start"],
    values=["sum"],
    window_start="window_start",
    window_s=WINDOW_MS / 1000,
    watermark_delay_s=0.2,
)


class FakeProgram(RunningProgram):
    """A child process with a session of its own."""

    def __init__(self, place: Path, argv: Sequence[str], files: Mapping[str, str]) -> None:
        self.name, self.node, self.incarnation = f"{NODE.name}-made-up", NODE.name, 0
        self._place, self._argv, self._files = place, argv, files
        self.start()

    def start(self) -> None:
        self.incarnation += 1
        self.directory.mkdir(parents=True)
        for name, text in self._files.items():
            write_private(self.directory / name, text)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                self._argv, stdout=output, stderr=subprocess.STDOUT, cwd=self.directory,
                start_new_session=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.poll()

    @property
    def log(self) -> Path:
        return self._place / f"{self.name}.{self.incarnation}.log"

    @property
    def directory(self) -> Path:
        return self._place / f"{self.name}.{self.incarnation}"

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, *, within_s: float = 10.0) -> None:
        self.process.terminate()
        self.process.wait(within_s)
        try:
            os.killpg(self.pid, signal.SIGKILL)
            self.left_behind = 1
        except ProcessLookupError:
            self.left_behind = 0


class ProgramCluster(ToyCluster):
    """The toy's cluster, whose node runs programs."""

    def __init__(self, broker: Any, run_directory: Path) -> None:
        super().__init__(broker, run_directory)
        self.program: FakeProgram | None = None
        self._launched = 0

    def launch(
        self, node: str, argv: Sequence[str], *, files: Mapping[str, str], **_: object
    ) -> FakeProgram:
        self._launched += 1
        self.program = FakeProgram(self.run_directory / f"launch-{self._launched}", argv, files)
        return self.program

    def carry_out(self, action: Action, target: str) -> tuple[int, ...]:
        assert self.program is not None
        if action is Action.KILL:
            self.program.kill()
        else:
            self.program.start()
        return (self.program.pid,)
