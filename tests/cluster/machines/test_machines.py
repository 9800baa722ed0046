"""Machines by SSH: what is sent, what is refused, and what becomes of a lost one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.cluster.machines import sending
from harness.cluster.machines.machine import Machine as Reached
from harness.cluster.machines.ssh import Connection, Loop
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import eventually, silent
from tests.cluster.machines.kit import DIRECTORY, Network, needs_machines, poor_path

pytestmark = [needs_machines, pytest.mark.cluster]


def test_logs_and_files_are_copied_as_they_grow(reached: Reached, tmp_path: Path) -> None:
    assert reached.sent_bytes == 0, "everything was there"
    reached.agent.make("programs/x")
    script = "echo one; echo kept > programs/x/file; read line; echo two"
    reached.agent.start("x", ["sh", "-c", script], environment={}, log_name="x")
    eventually(lambda: reached.log("x").read_text() == "one\ntwo\n")
    assert reached.log("x") == tmp_path / "logs" / "x.log"
    assert (reached.copied_directory("programs/x") / "file").read_text() == "kept\n"


def test_what_was_started_ends_with_a_connection_that_dies(
    network: Network, reached: Reached
) -> None:
    reached.agent.start("x", ["sleep", "600"], environment={}, log_name="x")
    eventually(lambda: any("sleep" in line for line in network.machines[0].processes()))
    reached.connection.abort()
    eventually(lambda: network.machines[0].processes() == [], limit_s=30)
    assert list((network.machines[0].cache / "runs").iterdir()) == []
    with pytest.raises(EnvironmentFailure, match="the agent on m1 cannot be used"):
        reached.agent.facts()


@pytest.mark.parametrize(
    ("host", "change", "words", "remedy"),
    [
        ("no-such-host.invalid", "", "no host of that name", "correct the name"),
        ("m1:2222", "", "nothing listens there", "start its SSH server"),
        ("m1", "known_hosts", "host key is not known", "log in once by hand"),
        ("m1", "key", "refuses every key", "authorized_keys"),
    ],
)
def test_a_machine_that_cannot_be_reached_says_why(
    network: Network, loop: Loop, tmp_path: Path, host: str, change: str, words: str, remedy: str
) -> None:
    import asyncssh

    text = (network.directory / "config").read_text()
    if change:
        other = tmp_path / change
        if change == "key":
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(other))
        else:
            other.touch()
        text = text.replace(str(network.directory / change), str(other))
    config = tmp_path / "config"
    config.write_text(text)
    with pytest.raises(EnvironmentFailure, match=words) as caught:
        Connection(host, loop, config=config)
    assert remedy in caught.value.remedy


def test_a_machine_without_our_python_is_found_out(loop: Loop) -> None:
    with (
        poor_path(python="#!/bin/sh\necho 2.7\n") as path,
        Network(1, path=path, seeded=False) as network,
    ):
        connection = Connection("m1", loop, config=network.directory / "config")
        found = sending.look(connection, DIRECTORY)
        assert found.python is None
        assert found.has == frozenset()
        assert found.directory == str(network.machines[0].cache)
        sending.demand_like("m1", found)
        heard: list[str] = []
        size = sending.send(connection, found, sending.python(), heard.append)
        assert size > 10_000_000
        assert "sent python" in heard[0]
        again = sending.look(connection, DIRECTORY)
        assert again.has == {sending.python().title}
        assert sending.send(connection, again, sending.python(), silent) == 0
        place = f"{found.directory}/{sending.python().title}"
        program = f"{place}/bin/python -c 'import ssl, sys; print(sys.prefix)'"
        done = connection.run(f"LD_LIBRARY_PATH={place}/lib {program}")
        assert done.stdout.strip() == place, done.stderr
        connection.close()


def test_a_full_disk_is_told_and_leaves_no_half_of_it(network: Network, loop: Loop) -> None:
    connection = Connection("m1", loop, config=network.directory / "config")
    inside = "/tmp/small"
    made = connection.run(f"mkdir {inside} && mount -t tmpfs -o size=2m none {inside}")
    assert made.returncode == 0, made.stderr
    found = sending.look(connection, inside)
    with pytest.raises(EnvironmentFailure, match="could not be written") as caught:
        sending.send(connection, found, sending.python(), silent)
    assert "free some disk space" in caught.value.remedy
    assert connection.run(f"ls -A {inside}").stdout == ""
    connection.run(f"umount {inside} && rmdir {inside}")
    connection.close()


@pytest.mark.parametrize(
    ("kernel", "libc", "words"),
    [
        ("Linux aarch64", "glibc 2.40", "machines of one kind"),
        ("Linux x86_64", "glibc 2.20", f"install Python {sys.version_info[0]}"),
        ("Linux x86_64", "", "install Python"),
    ],
)
def test_a_machine_of_another_kind_is_refused(kernel: str, libc: str, words: str) -> None:
    host = sending.Host(
        directory="/d", kernel=kernel, libc=libc, python=None, free_bytes=0, has=frozenset()
    )
    with pytest.raises(EnvironmentFailure) as caught:
        sending.demand_like("m1", host)
    assert words in caught.value.remedy
