"""One agent in this process and behind a wire: the same answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.cluster.agent.__main__ import open_run
from harness.cluster.agent.agent import Agent, end_run
from harness.cluster.agent.finding import Part
from harness.cluster.agent.instants import wait_until
from harness.cluster.agent.wire import Caller, FarAgent, Frames, Reply, frame
from harness.cluster.processes import PROGRAM_VARIABLE, WORKER_VARIABLE, marked
from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure, UsageError
from tests.cluster.helpers import eventually
from tests.there import there

MARKS = {WORKER_VARIABLE: "r1w1", PROGRAM_VARIABLE: "r1n1-x"}
WHOLE = [Part(node="r1n1", worker="r1w1")]


@contextmanager
def program(directory: Path, run: str) -> Iterator[tuple[FarAgent, subprocess.Popen[bytes]]]:
    """Run an agent as a program of its own, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "harness.cluster.agent", str(directory), run],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        sink, output = there(process.stdin).fileno(), there(process.stdout).fileno()

        def send(data: bytes) -> None:
            os.write(sink, data)

        caller = Caller("a test's machine", send)

        def read() -> None:
            while data := os.read(output, 1 << 16):
                caller.feed(data)
            caller.lose("its output ended")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield FarAgent(caller), process
        finally:
            there(process.stdin).close()
            process.wait(20)
            reader.join()


@pytest.fixture(params=["here", "behind a wire"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    directory, run = tmp_path / "runs" / "one", f"test-{tmp_path.name}"
    if request.param == "here":
        near = open_run(directory, run)
        yield near
        near.end_all()
        end_run(run, directory)
    else:
        with program(directory, run) as (far, _):
            yield far
    assert marked(run) == []
    assert not directory.exists(), "it leaves nothing"


def test_it_starts_counts_and_kills_on_time(agent: Agent) -> None:
    parent = ("sh", "-c", "sleep 600 & sleep 600 & wait")
    started = agent.start("r1n1-x", parent, environment=MARKS, log_name="x")
    assert agent.ended(started.number) is None
    eventually(lambda: len(agent.look(WHOLE)["r1n1"].processes) == 3)
    assert agent.look(WHOLE)["r1n1"].engines == 1
    number = agent.arm(WHOLE, whole=True)
    due = time.time() + 0.1
    struck = agent.strike(number, signal.SIGKILL, due)
    assert due <= struck.began_unix_s <= struck.at_unix_s
    assert len(struck.groups["r1n1"].processes) == 3
    assert there(agent.ended(started.number)).exit_code == -signal.SIGKILL
    assert agent.look(WHOLE)["r1n1"].processes == []
    with pytest.raises(UsageError, match="was dropped or done"):
        agent.strike(number, signal.SIGKILL)


def test_a_process_without_its_marks_is_ended_too(agent: Agent) -> None:
    """Redis writes its title over its environment."""
    started = agent.start("x", ["env", "-i", "sleep", "600"], environment=MARKS, log_name="x")
    place = Path(f"/proc/{started.pid}/environ")
    eventually(lambda: place.read_bytes() == b"" and started.identity is not None)
    agent.end_all()
    assert there(agent.ended(started.number)).exit_code == -signal.SIGKILL


def test_what_a_program_leaves_is_found_when_it_is_ended(agent: Agent) -> None:
    leaver = ("sh", "-c", "sleep 600 & exit 3")
    started = agent.start("r1n1-x", leaver, environment=MARKS, log_name="x")
    eventually(lambda: agent.ended(started.number) is not None)
    ended = agent.end(started.number, 0.1)
    assert (ended.exit_code, ended.left_behind) == (3, 1)


def test_files_are_private_and_below_the_runs_directory(agent: Agent) -> None:
    agent.make("programs/x")
    agent.write("programs/x/job", "secret")
    assert agent.files("programs") == {"x/job": 6}
    assert agent.read("programs/x/job", 2, 3) == b"cre"
    assert agent.read("programs/none") == b""
    agent.remove("programs/x")
    assert agent.files("programs") == {}
    with pytest.raises(UsageError, match="outside"):
        agent.read("../../../etc/passwd")


def test_it_knows_its_machine(agent: Agent) -> None:
    facts = agent.facts()
    assert facts.memory_bytes > 1 << 20
    assert facts.free_disk_bytes > 0
    assert abs(agent.clock_unix_s() - time.time()) < 1


def test_a_program_that_is_not_there_is_an_error_of_the_caller(agent: Agent) -> None:
    with pytest.raises(EnvironmentFailure, match="cannot be started"):
        agent.start("x", ["no-such-program"], environment={}, log_name="x")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_agent_leaves_is_removed_by_the_next(
    number: signal.Signals, tmp_path: Path
) -> None:
    first, run = tmp_path / "runs" / "first", f"test-{tmp_path.name}"
    with program(first, run) as (agent, process):
        agent.start("x", ["sleep", "600"], environment=MARKS, log_name="x")
        process.send_signal(number)
        process.wait()
        with pytest.raises(EnvironmentFailure, match="a test's machine cannot be used"):
            agent.facts()
    with program(tmp_path / "runs" / "second", f"{run}-2") as (agent, _):
        agent.facts()
        assert marked(run) == []
        assert not first.exists()


def test_a_frame_may_come_in_pieces_and_an_impossible_one_loses_the_agent() -> None:
    data = b"".join(frame(Reply(number, None, b"\xc0")) for number in (1, 2))  # type: ignore[arg-type]
    frames = Frames()
    pieces = [data[at : at + 3] for at in range(0, len(data), 3)]
    assert sum(len(list(frames.take(piece))) for piece in pieces) == 2
    caller = Caller("m1", lambda data: None)
    caller.feed(b"\xff\xff\xff\xff")
    with pytest.raises(EnvironmentFailure, match="a frame of 4294967295 bytes"):
        FarAgent(caller).facts()


def test_an_answer_that_does_not_come_is_an_error_that_names_the_machine() -> None:
    caller = Caller("m1", lambda data: None)
    with pytest.raises(EnvironmentFailure, match="m1 cannot be used: it did not answer `facts`"):
        caller.call("facts", {}, within_s=0.01)


def test_an_instant_is_waited_for_to_the_millisecond() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.0005
        return now[0]

    wait_until(0.01, lambda left_s: None, clock)
    assert 0.01 <= now[0] < 0.011
