"""The containers of one cluster: made, configured, followed, and found again by their labels."""

from __future__ import annotations

import io
import os
import random
import tarfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster.docker.daemon import ROLE_LABEL, RUN_LABEL, failing
from harness.cluster.links import Traffic, WorkerLink, able, lay
from harness.cluster.processes import RUN_VARIABLE
from harness.errors import EnvironmentFailure

CONFIGURATION = "/etc/faultline"
_OWN_INTERFACE = (
    "cd /sys/class/net && for name in *; do "
    '[ "$name" = lo ] || echo "$name $(cat "$name/iflink")"; done'
)
"""Prints a container's interface and the number of its other end on the daemon's machine."""
_SUBNET_ATTEMPTS = 30
_ONCE = "once"
"""The role of a container that lives for one command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container before it exists."""

    role: str
    """"kafka", "redis", "master", or the name of a worker."""
    command: tuple[str, ...]
    address: str
    files: Mapping[str, str]
    """Texts by file name in `CONFIGURATION`; only the container's user can read them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables without secrets: every user of the daemon can see them."""
    log_name: str | None = None
    """Name of its log in the run directory; by default its role."""


@dataclass(slots=True)
class Used:
    """Sums of counters that start again from zero with each container or connection."""

    cpu_s: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The daemon's counters of one container."""

    used: Used
    """Since it was started, and connected to the network."""
    resident_bytes: int | None
    """Memory in use, without inactive file pages; None where the daemon does not count it."""


class Containers:
    """The containers of one run, on a network of its own."""

    def __init__(self, client: Any, run: str, image: str, directory: Path) -> None:
        self._client, self._run, self._image = client, run, image
        self._directory = directory
        self._followers: list[threading.Thread] = []
        self.subnet = ""

    def make_network(self) -> None:
        """Make a bridge with a free range of addresses."""
        from docker.errors import APIError

        import docker

        choice = random.SystemRandom()
        for _ in range(_SUBNET_ATTEMPTS):
            prefix = f"10.{choice.randint(64, 250)}.{choice.randint(0, 255)}"
            pool = docker.types.IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.1")
            try:
                self._network = self._client.networks.create(
                    f"faultline-{self._run}",
                    driver="bridge",
                    ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                    labels={RUN_LABEL: self._run},
                )
            except APIError as error:
                if "overlap" not in str(error):
                    raise
                continue
            self.subnet = prefix
            return
        raise EnvironmentFailure(
            f"no free address range for a network in {_SUBNET_ATTEMPTS} attempts",
            remedy="`docker network prune` removes networks that nobody uses",
        )

    @property
    def gateway(self) -> str:
        """The address of the daemon's machine, where drivers listen."""
        return self.address(1)

    def address(self, number: int) -> str:
        """Return the address of a container by its number in this cluster's network."""
        return f"{self.subnet}.{number}"

    def start(self, plan: ContainerSpec, *, shared: Iterable[Path]) -> None:
        """Make and start a container; an earlier one of its name is removed first.

        The directories ``shared`` have the same paths inside."""
        name = self._name(plan.role)
        with failing(f"the container {name} could not be started"):
            self.remove(plan.role)
            container = self._client.containers.create(
                self._image,
                ["sh", "/opt/bin/role", *plan.command],
                name=name,
                hostname=plan.role,
                user=f"{os.getuid()}:{os.getgid()}",
                environment={
                    "FAULTLINE_HOST": plan.address,
                    RUN_VARIABLE: self._run,
                    "FAULTLINE_ROLE": plan.role,
                    **plan.environment,
                },
                labels={RUN_LABEL: self._run, ROLE_LABEL: plan.role},
                volumes={str(path): {"bind": str(path), "mode": "rw"} for path in shared},
                network=self._network.name,
                networking_config={
                    self._network.name: self._client.api.create_endpoint_config(
                        ipv4_address=plan.address
                    )
                },
                init=True,  # reaps the Python workers that an executor leaves behind
                detach=True,
            )
            container.put_archive("/", _archive(plan.files))
            container.start()
        self.follow(
            lambda: container.logs(stream=True, follow=True), self.log(plan.log_name or plan.role)
        )

    def remove(self, role: str) -> None:
        """Remove a container that may not be there."""
        from docker.errors import NotFound

        try:
            self.of(role).remove(force=True, v=True)
        except NotFound:
            return

    def of(self, role: str) -> Any:
        """Return the container of a role. Raises `docker.errors.NotFound`."""
        return self._client.containers.get(self._name(role))

    def states(self) -> dict[str, str]:
        """Return "running", "paused", "exited", ... by role, with one request to the daemon."""
        return states(self._client, self._run)

    def counted(self, role: str) -> Counted:
        """Return the counters of the present container of a role; zeros where none runs."""
        from docker.errors import APIError, NotFound

        try:
            container = self.of(role)
            if container.status in ("running", "paused"):
                stats = self._client.api.stats(container.id, stream=False, one_shot=True)
                return read_counters(stats)
        except (APIError, NotFound):  # it has just ended
            pass
        return Counted(used=Used(), resident_bytes=0)

    def execute(
        self, role: str, argv: Sequence[str], environment: Mapping[str, str], directory: Path
    ) -> tuple[str, Callable[[], Iterable[bytes]]]:
        """Start a command in a running container; return its id and its output to come."""
        name = self.of(role).id
        made = self._client.api.exec_create(
            name, list(argv), environment=dict(environment), workdir=str(directory)
        )["Id"]
        stream = self._client.api.exec_start(made, stream=True)
        return made, lambda: stream

    def executed(self, command: str) -> int | None:
        """Return the exit code of an `execute`; None while it runs, -9 if its container is gone."""
        from docker.errors import NotFound

        try:
            found = self._client.api.exec_inspect(command)
        except NotFound:
            return -9
        code = found["ExitCode"]
        if found["Running"] or code is None:
            return None
        return 128 - code if code > 128 else int(code)

    def log(self, name: str) -> Path:
        """Return the file to which a container's output is copied, which outlives it."""
        return self._directory / "logs" / f"{name}.log"

    def cut(self, role: str) -> None:
        """Take a container off the network. Its connections stay open on both sides."""
        self._network.disconnect(self.of(role), force=True)

    def heal(self, role: str, address: str) -> None:
        """Connect a container again to its network, under its old address."""
        self._network.connect(self.of(role), ipv4_address=address)

    def shape(self, role: str, link: WorkerLink | None) -> None:
        """Lay a link on both ends of a container's cable; see `harness.cluster.links`."""
        container = self.of(role)
        code, output = container.exec_run(["sh", "-c", _OWN_INTERFACE])
        inner, _, peer = output.decode().strip().partition(" ")
        if code != 0 or not peer.isdecimal():
            raise EnvironmentFailure(
                f"the interface of {role} was not found: {output.decode(errors='replace')[-300:]}",
                remedy="see whether it is on a network: `docker inspect` shows it",
            )
        lay(link, inner, self._traffic(f"container:{container.id}"))
        # The bridge's end of the cable, on the daemon's machine: what reaches the container.
        lay(link, self._device(int(peer)), self._traffic("host"))

    def shapes(self) -> frozenset[str]:
        """Return the kinds of link that can be laid, tried on an unused device."""
        return able("try0", self._traffic("none", first="ip link add try0 type bridge &&"))

    def _device(self, number: int) -> str:
        """Return a network device of the daemon's machine by its number there."""
        found = self._once("host", f"cd /sys/class/net && grep -lx {number} */ifindex")
        return found.partition("/")[0]

    def _once(self, network: str, script: str) -> str:
        """Return the output of a script in a container of its own that may change networks.

        Workers themselves may not."""
        said: bytes = self._client.containers.run(
            self._image,
            ["sh", "-c", script],
            network_mode=network,
            cap_add=["NET_ADMIN"],
            user="0:0",
            environment={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"},
            labels={RUN_LABEL: self._run, ROLE_LABEL: _ONCE},
            remove=True,
        )
        return said.decode(errors="replace").strip()

    def _traffic(self, network: str, *, first: str = "") -> Traffic:
        from docker.errors import APIError, ContainerError

        def call(arguments: Sequence[str]) -> str | None:
            try:
                self._once(network, f"{first} tc {' '.join(arguments)}")
            except ContainerError as error:
                lines = (error.stderr or b"").decode(errors="replace").strip().splitlines()
                if lines and "not found" in lines[-1]:
                    return "the image has no program tc: name a base image with iproute2"
                return lines[-1] if lines else f"exit code {error.exit_status}"
            except APIError as error:
                return str(error)
            return None

        return call

    def forget(self) -> None:
        """Wait for the ends of the logs, after the containers are gone."""
        for follower in self._followers:
            follower.join(10)

    def _name(self, role: str) -> str:
        return f"faultline-{self._run}-{role}"

    def follow(self, output: Callable[[], Iterable[bytes]], log: Path) -> None:
        """Copy an output into a file, on a thread of its own."""

        def copy() -> None:
            from docker.errors import DockerException
            from requests.exceptions import RequestException
            from urllib3.exceptions import HTTPError

            with log.open("ab", buffering=0) as file:
                try:
                    for chunk in output():
                        file.write(chunk)
                except (DockerException, RequestException, HTTPError, OSError):
                    return  # the container is gone, or the daemon

        log.touch()
        thread = threading.Thread(target=copy, name=f"log {log.stem}", daemon=True)
        thread.start()
        self._followers.append(thread)


def states(client: Any, run: str) -> dict[str, str]:
    """Return the states of a run's containers by role."""
    with failing(f"the containers of run {run} cannot be listed"):
        found = client.api.containers(all=True, filters={"label": f"{RUN_LABEL}={run}"})
    roles = {each["Labels"][ROLE_LABEL]: each["State"] for each in found}
    roles.pop(_ONCE, None)  # it lives for a moment, and is no server
    return roles


def read_counters(stats: Mapping[str, Any]) -> Counted:
    """Read the counters from the daemon's answer to `stats`."""
    cpu_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0)
    memory = stats.get("memory_stats", {})
    detail = memory.get("stats", {})
    cached = detail.get("inactive_file", detail.get("total_inactive_file", 0))
    networks = (stats.get("networks") or {}).values()
    used = Used(
        cpu_s=cpu_ns / 1e9,
        received_bytes=sum(each["rx_bytes"] for each in networks),
        sent_bytes=sum(each["tx_bytes"] for each in networks),
    )
    resident = memory["usage"] - cached if "usage" in memory else None
    return Counted(used=used, resident_bytes=resident)


def _archive(files: Mapping[str, str]) -> bytes:
    """Pack configuration, and a name for the user, without which Java does not start."""
    uid, gid = os.getuid(), os.getgid()
    users = "root:x:0:0:root:/tmp:/bin/sh\n"
    if uid != 0:
        users += f"faultline:x:{uid}:{gid}:Faultline:/tmp:/bin/sh\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, "etc/passwd", users, mode=0o644, owner=(0, 0))
        for name, text in files.items():
            _add(tar, f"{CONFIGURATION[1:]}/{name}", text, mode=0o400, owner=(uid, gid))
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, text: str, *, mode: int, owner: tuple[int, int]) -> None:
    entry = tarfile.TarInfo(name)
    content = text.encode()
    entry.size, entry.mode = len(content), mode
    entry.uid, entry.gid = owner
    tar.addfile(entry, io.BytesIO(content))
