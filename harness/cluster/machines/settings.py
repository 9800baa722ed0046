"""The file of hosts that ``--cluster machines.yaml`` names."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field, structs

from harness.errors import UsageError
from harness.text import read_given
from harness.yaml_files import Entry, decode, parse_yaml

_LIKE = "write a file like docs/machines.md shows"
Rack = Annotated[str, Meta(pattern=r"^r[1-9][0-9]*$")]
Count = Annotated[int, Meta(ge=1, le=200)]


class Host(Entry, kw_only=True):
    """A machine with workers."""

    ssh: str
    """``[user@]host[:port]``, or a name from ~/.ssh/config."""
    rack: Rack = "r1"
    workers: Count = 1
    """Most Spark workers, or nodes of other engines, on it."""
    address: str | None = None
    """Its address for the other machines; by default that of its way to the services."""


class Services(Entry, kw_only=True):
    """The machine of Kafka, Redis and the Spark master."""

    ssh: str | None = None
    """None for the one of the harness. It may be one of the machines."""
    address: str | None = None
    """Its address for the others; by default that of its way to the first of them."""


class MachinesFile(Entry, kw_only=True):
    """The whole file."""

    machines: Annotated[list[Host], Meta(min_length=1)]
    services: Services = field(default_factory=Services)
    directory: str = "~/.cache/faultline"
    """Where sent files and the directories of runs are, on each machine."""
    checkpoints: str | None = None
    """A URI that all machines and this one can write to, for engines that keep state in files."""
    ssh_config: str | None = None
    """A file in place of ~/.ssh/config."""
    cuts: bool = False
    """True if runs may cut machines off and shape their links; needs root or sudo there."""
    brokers: Literal[1, 3, 5] = 1
    """Brokers of Kafka, on the machine of the services and on others; 1 keeps one copy of each
    record, more keep three, two of which must have it before it counts as sent."""
    replicas: Annotated[int, Meta(ge=0, le=5)] = 0
    """Replicas of Redis on other machines, which every checkpoint waits for; Redis then has an
    append-only file, too."""
    clock_limit_ms: Annotated[float, Meta(gt=0)] = 5.0
    """Largest error of a machine's clock offset; times measured with a larger one are invalid."""


class Machines(MachinesFile, kw_only=True):
    """A file that was read, with its name in records."""

    path: Path
    name: str

    @property
    def config(self) -> Path | None:
        """The path of `ssh_config`."""
        return None if self.ssh_config is None else self.path.parent / self.ssh_config

    @property
    def everyone(self) -> list[Host]:
        """The machines, and that of the services where it has no workers."""
        services = self.services
        if services.ssh is None or services.ssh in {host.ssh for host in self.machines}:
            return self.machines
        return [*self.machines, Host(ssh=services.ssh, address=services.address)]

    @property
    def beside(self) -> list[str]:
        """The SSH names of machines for further brokers and replicas, one of each rack in turn."""
        others = [host for host in self.machines if host.ssh != self.services.ssh]
        before = Counter[str]()
        turns = []
        for host in others:
            turns.append((before[host.rack], int(host.rack[1:]), host.ssh))
            before[host.rack] += 1
        return [ssh for *_, ssh in sorted(turns)]

    @property
    def racks(self) -> dict[str, list[Host]]:
        """The host of each worker, by rack: one on every machine, then a second one, and so on."""
        found: dict[str, list[Host]] = {}
        for number in range(max(host.workers for host in self.machines)):
            for host in self.machines:
                if host.workers > number:
                    found.setdefault(host.rack, []).append(host)
        return dict(sorted(found.items(), key=lambda item: int(item[0][1:])))

    def host_of(self, rack: int, worker: int) -> Host:
        """Return the machine of worker number ``worker`` of a rack, both from 1."""
        return self.racks[f"r{rack}"][worker - 1]


def describes_machines(path: Path) -> bool:
    """Return True if a YAML file lists hosts, and not servers that exist already."""
    text = read_given(path, "--cluster: ", _LIKE)
    return re.search(r"^machines\s*:", text, re.MULTILINE) is not None


def read_machines(path: Path) -> Machines:
    """Read a file. Raises `UsageError` with the mistake, its place, and what to write."""
    text = read_given(path, "--cluster: ", _LIKE)
    name = f"--cluster: {path}"
    file = decode(MachinesFile, parse_yaml(text, name=name, remedy=_LIKE), name=name, remedy=_LIKE)
    numbers = {int(host.rack[1:]) for host in file.machines}
    if numbers != set(range(1, len(numbers) + 1)):
        raise UsageError(
            f"{name}: the racks are {', '.join(sorted({h.rack for h in file.machines}))}",
            remedy="call them r1, r2 and so on, without a gap",
        )
    twice = [ssh for ssh, count in Counter(h.ssh for h in file.machines).items() if count > 1]
    if twice:
        raise UsageError(
            f"{name}: {twice[0]} is there twice", remedy="give it `workers: 2` in one entry"
        )
    if file.checkpoints is not None and "://" not in file.checkpoints:
        raise UsageError(
            f"{name}: checkpoints is {file.checkpoints!r}, which is no URI",
            remedy="begin with file:// for a directory that every machine mounts at that path",
        )
    machines = Machines(
        path=path,
        name=f"machines-{path.stem}-{sha256(text.encode()).hexdigest()[:8]}",
        **structs.asdict(file),
    )
    wanted, there = max(file.brokers - 1, file.replicas), len(machines.beside)
    if wanted > there:
        raise UsageError(
            f"{name}: {file.brokers} brokers and {file.replicas} replicas are wanted, each on a "
            f"machine of its own beside that of the services, and {there} are there",
            remedy="list more machines, or use fewer `brokers` and `replicas`",
        )
    return machines
