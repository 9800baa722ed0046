"""Machines for tests: a network, a mount and a process namespace each, with an SSH server.

They are joined by a bridge; each has its own address, home and /tmp."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import asyncssh
import psutil
import pytest
import yaml

from harness.cluster.machines import sending
from harness.cluster.machines.machine import Machine as Reached
from harness.cluster.machines.settings import Host
from harness.cluster.machines.ssh import Loop
from harness.cluster.owned import find_programs
from tests.cluster.helpers import silent

DIRECTORY = "~/.cache/faultline"
"""Where sent files are on a machine, as a file of hosts says by default."""
ROOT = Path("/var/tmp")
"""Not below /tmp, which each machine has for itself."""
PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("sh", "tar", "mkdir", "chmod", "uname", "getconf", "df", "awk", "mv", "rm", "basename")
"""Programs of a machine that has little."""


def refused(*words: str) -> str | None:
    """Return why a command fails; None if it ends well."""
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return tried.stderr.strip() or None if tried.returncode else None


@cache
def why_not() -> str | None:
    """Return why no machine can be made here; None if they can."""
    if os.geteuid() != 0:
        return "making network namespaces with addresses needs root"
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"there is no program {program}"
    return refused("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "true")


@cache
def why_no_cut() -> str | None:
    """Return why no machine can be cut off here; None if they can."""
    if why_not() is not None or shutil.which("nft") is None:
        return why_not() or "there is no program nft (package nftables)"
    return refused("unshare", "--net", "nft", "add", "table", "inet", "try")


needs_machines = pytest.mark.skipif(
    why_not() is not None, reason=f"no machines can be made here: {why_not()}"
)


class Machine:
    """One machine."""

    def __init__(self, network: Network, number: int, path: str) -> None:
        self.name = f"m{number}"
        self.address = f"{network.prefix}.{10 + number}"
        self.directory = network.directory / self.name
        self.home = self.directory / "home"
        self.tmp = self.directory / "tmp"
        self._network, self._path = network, path
        self._cable = f"{network.bridge}{number}"
        for place in (self.home, self.tmp):
            place.mkdir(parents=True)
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(self.directory / "host_key"))
        network.know(self.address, key)
        (self.directory / "authorized_keys").write_bytes(network.public)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def cache(self) -> Path:
        """Where what is sent is kept."""
        return self.home / ".cache" / "faultline"

    def on(self) -> None:
        """Switch it on."""
        script = (
            f'mount --bind {self.tmp} /tmp && exec "$0" {Path(__file__).parent / "server.py"} '
            f"{self.address} {self.directory} {self._path}"
        )
        process = self.process = subprocess.Popen(
            [
                "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                "sh", "-c", f"echo; {script}", sys.executable,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        ip(f"link add {self._cable} type veth peer name eth0 netns {process.pid}")
        ip(f"link set {self._cable} master {self._network.bridge}")
        ip(f"link set {self._cable} up")
        address = f"addr add {self.address}/24 dev eth0"
        for command in ("link set lo up", address, "link set eth0 up"):
            ip(command, self._enter)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line == b"listening\n", "the SSH server did not start"

    def off(self) -> None:
        """Pull the plug: its interface goes down and every process is gone."""
        if self.process is not None:
            ip(f"link set {self._cable} down", check=False)
            ip(f"link del {self._cable}", check=False)
            self.process.kill()
            self.process.communicate()
            self.process = None

    def inside(self) -> dict[int, str]:
        """Return the command lines of its processes, without its server's, by their pids here."""
        assert self.process is not None
        own = os.readlink(f"/proc/{self.process.pid}/ns/net")
        found = {}
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                if os.readlink(f"/proc/{process.pid}/ns/net") == own:
                    found[process.pid] = " ".join(process.cmdline())
        return {pid: line for pid, line in found.items() if line and "server.py" not in line}

    def processes(self) -> list[str]:
        """Return the command lines of its processes, without its server's."""
        return list(self.inside().values())

    def rules(self) -> str:
        """Return what is left of rules and devices of its network."""
        if why_no_cut() is not None:
            return ""
        return "".join(
            subprocess.run(
                [*self._enter, *words.split()], capture_output=True, text=True, check=True
            ).stdout
            for words in (
                "nft list ruleset",
                "ip link show type ifb",
                "tc filter show dev eth0 ingress",
            )
        )

    @property
    def _enter(self) -> list[str]:
        """The beginning of a command in its network."""
        assert self.process is not None
        return ["nsenter", "--net", "--target", str(self.process.pid), "--"]

    def seed(self) -> None:
        """Put there what would be sent, by hard links."""
        for bundle in bundles():
            place = self.cache / bundle.title
            if place.exists():
                continue
            for path, name in bundle.files():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                source = path.resolve()
                try:
                    os.link(source, place / name)
                except OSError:
                    shutil.copy2(source, place / name)
        self.cache.chmod(0o700)


@cache
def bundles() -> tuple[sending.Bundle, ...]:
    programs = find_programs(silent)
    return (sending.code(), sending.packages(), sending.java(programs), sending.python())


class Network:
    """A bridge and the machines on it."""

    def __init__(self, count: int, *, path: str = PLAIN_PATH, seeded: bool = True) -> None:
        mark = secrets.token_hex(2)
        self.bridge = f"flt{mark}"
        self.prefix = f"10.79.{int(mark[:2], 16)}"
        self.directory = ROOT / f"faultline-machines-{mark}"
        self.directory.mkdir(mode=0o700)
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(self.directory / "key"))
        self.public = key.export_public_key()
        self._known = self.directory / "known_hosts"
        self.machines = [Machine(self, number, path) for number in range(1, count + 1)]
        if seeded:
            for machine in self.machines:
                machine.seed()
        config = "".join(
            f"Host {machine.name}\n  HostName {machine.address}\n  User root\n"
            f"  IdentityFile {self.directory / 'key'}\n  UserKnownHostsFile {self._known}\n"
            for machine in self.machines
        )
        (self.directory / "config").write_text(config)

    @property
    def host(self) -> str:
        """The address of this machine on the bridge."""
        return f"{self.prefix}.1"

    def know(self, address: str, key: asyncssh.SSHKey) -> None:
        """Note a machine's host key, as after a first login."""
        with self._known.open("ab") as file:
            file.write(f"{address} ".encode() + key.export_public_key())

    def file(self, entries: Iterable[Mapping[str, object]] | None = None, **more: object) -> Path:
        """Write a file of hosts; by default half of the machines are in each of two racks."""
        if entries is None:
            half = (len(self.machines) + 1) // 2
            entries = [
                {"ssh": machine.name, "rack": "r1" if number < half else "r2"}
                for number, machine in enumerate(self.machines)
            ]
        path = self.directory / "machines.yaml"
        document = {"machines": list(entries), "ssh_config": "config", **more}
        path.write_text(yaml.safe_dump(document))
        return path

    def __enter__(self) -> Network:
        ip(f"link add {self.bridge} type bridge")
        ip(f"addr add {self.host}/24 dev {self.bridge}")
        ip(f"link set {self.bridge} up")
        try:
            for machine in self.machines:
                machine.on()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            machine.off()
        ip(f"link del {self.bridge}", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def ip(command: str, prefix: Iterable[str] = (), *, check: bool = True) -> None:
    subprocess.run([*prefix, "ip", *command.split()], check=check, capture_output=not check)


def open_machine(network: Network, loop: Loop, mirror: Path) -> Reached:
    """Start the agent of the first machine; its logs are copied to ``mirror``."""
    (mirror / "logs").mkdir()
    machine = Reached(
        Host(ssh="m1"), loop, directory=DIRECTORY, config=network.directory / "config"
    )
    machine.send(find_programs(silent), silent)
    machine.open(f"test-{mirror.name}", mirror)
    return machine


@contextmanager
def poor_path(*, python: str | None = None) -> Iterator[str]:
    """Yield a PATH with few programs; ``python``: text of a script that is called python3.11."""
    with tempfile.TemporaryDirectory(prefix="faultline-", dir=ROOT) as path:
        directory = Path(path)
        for name in NEEDED:
            found = shutil.which(name, path=PLAIN_PATH)
            assert found is not None, name
            (directory / name).symlink_to(found)
        if python is not None:
            script = directory / f"python{sys.version_info[0]}.{sys.version_info[1]}"
            script.write_text(python)
            script.chmod(0o755)
        yield path


def main() -> None:
    """Start some machines and print their file of hosts, until the input ends or Ctrl-C.

    The machines are in two racks by turns; the last one has the services, too."""
    arguments = argparse.ArgumentParser(description=main.__doc__)
    arguments.add_argument("count", type=int, nargs="?", default=3)
    arguments.add_argument("--workers", type=int, default=4, help="most workers on a machine")
    arguments.add_argument("--more", default="{}", help='more keys of the file: "{brokers: 3}"')
    given = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Network(given.count) as network:
        entries = [
            {"ssh": machine.name, "rack": f"r{number % 2 + 1}", "workers": given.workers}
            for number, machine in enumerate(network.machines)
        ]
        usual = {
            "services": {"ssh": network.machines[-1].name},
            "checkpoints": (network.directory / "shared").as_uri(),
            "cuts": why_no_cut() is None,
        }
        print(network.file(entries, **usual | yaml.safe_load(given.more)), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
