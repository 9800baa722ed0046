"""Waits that end badly say why; a port that was taken is replaced."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster.agent.launching import Server, wait_for
from harness.cluster.agent.place import LaunchedProcess, Launcher, Place
from harness.cluster.agent.ports import free_port
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import end_run, eventually, silent

pytestmark = pytest.mark.slow


class Script(Server):
    """A server that runs Python text and answers after a line in its log."""

    title = "the test server"

    def __init__(self, launcher: Launcher, *texts: str, limit_s: float = 20.0) -> None:
        super().__init__(launcher)
        self.texts = list(texts)
        self.limit_s = limit_s

    def launch(self) -> LaunchedProcess:
        text = self.texts.pop(0)
        # A log of its own: two servers must not answer with each other's words.
        return self.launcher.spawn(
            "script", [sys.executable, "-S", "-c", text], log_name=f"script-{id(self)}"
        )

    def answers(self) -> bool:
        assert self.child is not None
        return "serving" in self.child.log_text()


READY = "import time; print('serving', flush=True); time.sleep(600)"
TAKEN = "print('bind: Address already in use'); raise SystemExit(1)"


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    (tmp_path / "logs").mkdir()
    run = f"test-{os.urandom(8).hex()}"
    environment = {"PATH": os.environ["PATH"]}
    yield Place.here(run, tmp_path, environment).launcher(environment)
    end_run(run)


@pytest.fixture
def begun(launcher: Launcher) -> Iterator[Callable[..., Script]]:
    started: list[Script] = []

    def begin(*texts: str, limit_s: float = 20.0) -> Script:
        server = Script(launcher, *texts, limit_s=limit_s)
        server.begin()
        started.append(server)
        return server

    yield begin
    for server in started:
        assert server.child is not None
        server.child.end()
        server.child.wait()


def test_a_server_that_answers_is_reported(begun: Callable[..., Script]) -> None:
    said: list[str] = []
    wait_for([begun(READY)], said.append)
    assert said == ["the test server answers"]


def test_an_exit_is_told_with_its_code_and_last_lines(begun: Callable[..., Script]) -> None:
    server = begun("print('cannot find my configuration'); raise SystemExit(7)")
    with pytest.raises(EnvironmentFailure) as caught:
        wait_for([server], silent)
    assert "the test server did not start; it exited with code 7" in caught.value.what
    assert "    cannot find my configuration" in caught.value.what
    assert str(server.launcher.directory) in caught.value.what


def test_a_deadline_is_told_with_the_process(begun: Callable[..., Script]) -> None:
    server = begun("import time; print('thinking', flush=True); time.sleep(600)", limit_s=0.5)
    with pytest.raises(EnvironmentFailure) as caught:
        wait_for([server], silent)
    assert server.child is not None
    pid = server.child.pid
    assert f"did not answer within 500 ms; it is running as process {pid}" in caught.value.what


def test_a_server_that_died_later_is_told_by_check(begun: Callable[..., Script]) -> None:
    server = begun(READY)
    wait_for([server], silent)
    server.check()
    assert server.child is not None
    os.kill(server.child.pid, signal.SIGKILL)
    server.child.wait()
    with pytest.raises(EnvironmentFailure, match="the test server is dead; it was killed by SIGK"):
        server.check()


def test_a_server_that_dies_while_others_start_is_told(begun: Callable[..., Script]) -> None:
    first = begun("print('serving', flush=True); input()")  # standard input is closed: it ends
    second = begun("import time; time.sleep(600)")
    with pytest.raises(EnvironmentFailure, match=r"(is dead|did not start); it ex"):
        wait_for([first, second], silent)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("java.io.IOException: No space left on device", "free some disk space"),
        ("There is insufficient memory for the Java Runtime", "short of memory"),
        ("java.lang.UnsupportedClassVersionError: kafka/Kafka", "faultline doctor"),
        ("something else", "read the whole log"),
    ],
)
def test_the_remedy_follows_from_the_log(
    begun: Callable[..., Script], line: str, remedy: str
) -> None:
    server = begun(f"print({line!r}); raise SystemExit(1)")
    with pytest.raises(EnvironmentFailure) as caught:
        wait_for([server], silent)
    assert remedy in caught.value.remedy


def test_a_taken_port_is_replaced(begun: Callable[..., Script]) -> None:
    server = begun(TAKEN, TAKEN, READY)
    wait_for([server], silent)
    assert server.texts == []


def test_ports_that_are_always_taken_are_given_up(begun: Callable[..., Script]) -> None:
    server = begun(*[TAKEN] * 9)
    with pytest.raises(EnvironmentFailure) as caught:
        wait_for([server], silent)
    assert "keep taking the ports" in caught.value.remedy
    assert len(server.texts) == 4


def test_a_missing_program_is_named(launcher: Launcher) -> None:
    with pytest.raises(EnvironmentFailure, match="/no/such/java cannot be started"):
        launcher.spawn("java", ["/no/such/java"])


def test_a_server_inherits_nothing_of_the_users(
    launcher: Launcher, begun: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/surprise")
    server = begun("import os; print(sorted(os.environ), flush=True)")
    assert server.child is not None
    server.child.wait()
    eventually(lambda: server.child is not None and "PATH" in server.child.log_text())
    assert "SPARK_CONF_DIR" not in server.child.log_text()


def test_a_free_port_is_outside_of_the_range_for_clients() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) > 15
    if low > 12_000:
        assert all(port < low for port in ports)
