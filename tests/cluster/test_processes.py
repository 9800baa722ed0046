"""Identity, membership and signals, on small real processes."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cluster.processes import (
    ProcessIdentity,
    ProcessStat,
    identify,
    is_alive,
    marked,
    members,
    parse_stat,
    read_stat,
    send_signal,
    signal_all,
    wait_until_gone,
)
from tests.cluster.helpers import eventually, family, marked_environment
from tests.there import there


@pytest.fixture
def run() -> str:
    return f"test-{secrets.token_hex(8)}"


def test_a_program_name_with_spaces_and_parentheses_is_read() -> None:
    text = Path("/proc/self/stat").read_text()
    renamed = f"{text[: text.index('(')]}(a) Z (b){text[text.rindex(')') + 1 :]}"
    assert parse_stat(renamed) == parse_stat(text)
    assert parse_stat(renamed).parent == os.getppid()


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    identity = identify(process.pid)
    eventually(lambda: read_stat(process.pid) is None)
    assert identity is None or not is_alive(identity)
    process.wait()


def test_an_orphan_is_found_after_its_parent_died(run: str) -> None:
    with family(run, "r1w1") as (process, child):
        process.kill()
        process.wait()
        assert {stat.pid for stat in members(run)["r1w1"]} == {child}


def test_the_caller_is_spared_even_if_marked(run: str) -> None:
    script = (
        "import os, sys; from harness.cluster.processes import marked; "
        "print(os.getpid() in {stat.pid for stat in marked(sys.argv[1])})"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, run],
        env=marked_environment(run),
        capture_output=True,
        check=True,
        text=True,
    )
    assert answer.stdout.strip() == "False"


def test_signal_all_reaches_what_is_forked_meanwhile(run: str) -> None:
    with family(run) as (process, child):
        parent, rest = there(identify(process.pid)), there(identify(child))
        passes = 0

        def find() -> list[ProcessStat]:
            # The child comes into sight only after the first pass, as if forked during it.
            nonlocal passes
            passes += 1
            return [s for s in marked(run) if s.pid == parent.pid or passes > 1]

        before = time.time()
        done = signal_all(find, signal.SIGKILL)
        assert {stat.pid for stat in done.processes} == {process.pid, child}
        assert before <= done.began_unix_s <= done.at_unix_s <= time.time()
        assert wait_until_gone([parent, rest], limit_s=10)


def test_a_signal_never_reaches_a_stranger_with_the_same_pid(run: str) -> None:
    with family(run) as (process, _):
        real = there(identify(process.pid))
        earlier = ProcessIdentity(pid=real.pid, started_ticks=real.started_ticks - 5)
        assert not send_signal(earlier, signal.SIGKILL)
        assert process.poll() is None


def test_signals_work_where_the_kernel_has_no_pid_descriptors(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with family(run) as (process, _):
        identity = there(identify(process.pid))
        assert send_signal(identity, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not send_signal(identity, signal.SIGKILL)


def test_another_run_is_not_ours(run: str) -> None:
    with family(run):
        assert marked(run[:-1]) == []
