"""Waits that end badly say why; a port that was taken is replaced."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster.agent.launching import Server, wait_for
from harness.cluster.agent.place import LaunchedProcess, Launcher, Place
from harness.cluster.agent.ports import free_port
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import eventually, silent
from tests.there import there


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
        return "serving" in there(self.child).log_text()


READY = "import time; print('serving', flush=True); time.sleep(600)"
TAKEN = "print('bind: Address already in use'); raise SystemExit(1)"


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    (tmp_path / "logs").mkdir()
    environment = {"PATH": os.environ["PATH"]}
    place = Place.here(f"test-{os.urandom(8).hex()}", tmp_path, environment)
    yield place.launcher(environment)
    place.agent.end_all()


@pytest.fixture
def begun(launcher: Launcher) -> Callable[..., Script]:
    def begin(*texts: str, limit_s: float = 20.0) -> Script:
        server = Script(launcher, *texts, limit_s=limit_s)
        server.begin()
        return server

    return begin


def failure_of(*servers: Script) -> EnvironmentFailure:
    """Return the error of a wait for these servers."""
    with pytest.raises(EnvironmentFailure) as caught:
        wait_for(servers, silent)
    return caught.value


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("java.io.IOException: No space left on device", "free some disk space"),
        ("There is insufficient memory for the Java Runtime", "short of memory"),
        ("java.lang.UnsupportedClassVersionError: kafka/Kafka", "faultline doctor"),
        ("something else", "read the whole log"),
    ],
)
def test_an_exit_is_told_with_its_code_its_last_lines_and_a_remedy(
    begun: Callable[..., Script], line: str, remedy: str
) -> None:
    server = begun(f"print({line!r}); raise SystemExit(7)")
    failure = failure_of(server)
    assert "the test server did not start; it exited with code 7" in failure.what
    assert f"    {line}" in failure.what
    assert str(server.launcher.directory) in failure.what
    assert remedy in failure.remedy


def test_a_deadline_is_told_with_the_process(begun: Callable[..., Script]) -> None:
    server = begun("import time; print('thinking', flush=True); time.sleep(600)", limit_s=0.5)
    failure = failure_of(server)
    assert "did not answer within 500 ms" in failure.what
    assert f"it is running as process {there(server.child).pid}" in failure.what


def test_a_server_that_died_later_is_told_by_check(begun: Callable[..., Script]) -> None:
    server = begun(READY)
    wait_for([server], silent)
    server.check()
    child = there(server.child)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with pytest.raises(EnvironmentFailure, match="the test server is dead; it was killed by SIGK"):
        server.check()


def test_a_server_that_dies_while_others_start_is_told(begun: Callable[..., Script]) -> None:
    first = begun("print('serving', flush=True); input()")  # standard input is closed: it ends
    second = begun("import time; time.sleep(600)")
    assert re.search(r"(is dead|did not start); it ex", failure_of(first, second).what)


def test_a_taken_port_is_replaced(begun: Callable[..., Script]) -> None:
    said: list[str] = []
    server = begun(TAKEN, TAKEN, READY)
    wait_for([server], said.append)
    assert server.texts == []
    assert said == ["the test server answers"]


def test_ports_that_are_always_taken_are_given_up(begun: Callable[..., Script]) -> None:
    server = begun(*[TAKEN] * 9)
    assert "keep taking the ports" in failure_of(server).remedy
    assert len(server.texts) == 4


def test_a_server_inherits_nothing_of_the_users(
    begun: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/surprise")
    child = there(begun("import os; print(sorted(os.environ), flush=True)").child)
    child.wait()
    eventually(lambda: "PATH" in child.log_text())
    assert "SPARK_CONF_DIR" not in child.log_text()


def test_a_free_port_is_outside_of_the_range_for_clients() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) > 15
    if low > 12_000:
        assert all(port < low for port in ports)
