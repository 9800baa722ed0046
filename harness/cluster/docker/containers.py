"""The containers of a cluster's workers and their network: made, cut, shaped and counted."""

from __future__ import annotations

import io
import os
import random
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.cluster.agent.place import FarPlace
from harness.cluster.docker.daemon import ROLE_LABEL, RUN_LABEL, failing
from harness.cluster.links import Bytes, Loopback, Traffic, WorkerLink, able, lay
from harness.errors import EnvironmentFailure

_FIRST_WORKER = 10
"""Last number of the first worker's address."""
_OWN_INTERFACE = (
    "cd /sys/class/net && for name in *; do "
    '[ "$name" = lo ] || echo "$name $(cat "$name/iflink")"; done'
)
"""Prints a container's interface and the number of its other end on the daemon's machine."""
_SUBNET_ATTEMPTS = 30
_ONCE = "once"
"""The role of a container that lives for one command."""


class Containers(Loopback):
    """A bridge of the daemon with a container for each worker; nothing is made before `make`."""

    cuts = True
    method = (
        "Network: bytes of the container's interfaces, each connection to the network sampled "
        "before it is cut."
    )

    def __init__(self, workers_per_rack: int) -> None:
        self._in_rack = workers_per_rack
        self._subnet = ""
        self._hosts: dict[str, str] = {}
        self._spent: dict[str, Bytes] = {}
        """Bytes of earlier connections to the network."""
        self._links: dict[str, WorkerLink | None] = {}
        self._shapes: frozenset[str] | None = None

    def make(self, client: Any, run: str, image: str) -> None:
        """Make the network, with a free range of addresses."""
        from docker.errors import APIError

        import docker

        self._client, self._run, self._image = client, run, image
        choice = random.SystemRandom()
        for _ in range(_SUBNET_ATTEMPTS):
            subnet = f"10.{choice.randint(64, 250)}.{choice.randint(0, 255)}"
            pool = docker.types.IPAMPool(subnet=f"{subnet}.0/24", gateway=f"{subnet}.1")
            try:
                self._network = client.networks.create(
                    f"faultline-{run}",
                    driver="bridge",
                    ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                    labels={RUN_LABEL: run},
                )
            except APIError as error:
                if "overlap" not in str(error):
                    raise
                continue
            self._subnet, self.host = subnet, f"{subnet}.1"
            return
        raise EnvironmentFailure(
            f"no free address range for a network in {_SUBNET_ATTEMPTS} attempts",
            remedy="`docker network prune` removes networks that nobody uses",
        )

    def worker_host(self, rack: int, number: int) -> str:
        """Return the address of a worker's container."""
        return f"{self._subnet}.{_FIRST_WORKER + (rack - 1) * self._in_rack + number - 1}"

    def create(
        self, worker: str, host: str, command: Sequence[str], shared: Sequence[Path] = ()
    ) -> Any:
        """Make a container with an open input, and return it.

        The directories ``shared`` have the same paths inside."""
        with failing(f"the container of {worker} could not be made"):
            container = self._client.containers.create(
                self._image,
                list(command),
                name=self._name(worker),
                hostname=worker,
                user=f"{os.getuid()}:{os.getgid()}",
                labels={RUN_LABEL: self._run, ROLE_LABEL: worker},
                volumes={str(path): {"bind": str(path), "mode": "rw"} for path in shared},
                network=self._network.name,
                networking_config={
                    self._network.name: self._client.api.create_endpoint_config(ipv4_address=host)
                },
                init=True,  # reaps the Python workers that an executor leaves behind
                stdin_open=True,
                log_config={"type": "none"},  # the daemon would keep the agent's answers
            )
            container.put_archive("/", _users())
        self._hosts[worker] = host
        return container

    def of(self, worker: str) -> Any:
        """Return the container of a worker. Raises `docker.errors.NotFound`."""
        return self._client.containers.get(self._name(worker))

    def cut(self, worker: str) -> None:
        """Take a container off the network. Its connections stay open on both sides."""
        with failing(f"{worker} could not be cut off"):
            self._spent[worker] = self.counted(worker)
            self._network.disconnect(self.of(worker), force=True)

    def heal(self, worker: str) -> None:
        """Connect it again under its old address, with its declared link."""
        with failing(f"{worker} could not be healed"):
            self._network.connect(self.of(worker), ipv4_address=self._hosts[worker])
            if (link := self._links.get(worker)) is not None:
                self._lay(worker, link)

    def counted(self, worker: str) -> Bytes:
        with failing(f"the bytes of {worker} could not be counted"):
            stats = self._client.api.stats(self.of(worker).id, stream=False, one_shot=True)
        spent = self._spent.get(worker, Bytes(received=0, sent=0))
        networks = (stats.get("networks") or {}).values()
        return Bytes(
            received=spent.received + sum(each["rx_bytes"] for each in networks),
            sent=spent.sent + sum(each["tx_bytes"] for each in networks),
        )

    def shapes(self) -> frozenset[str]:
        """Return the kinds of link that can be laid, tried on an unused device."""
        if self._shapes is None:
            traffic = self._traffic("none", first="ip link add try0 type bridge &&")
            self._shapes = able("try0", traffic)
        return self._shapes

    def shape(self, worker: str, link: WorkerLink | None) -> None:
        self._links[worker] = link
        if self.of(worker).attrs["NetworkSettings"]["Networks"]:  # else `heal` lays it
            self._lay(worker, link)

    def _lay(self, worker: str, link: WorkerLink | None) -> None:
        """Lay a link on both ends of a container's cable; see `harness.cluster.links`."""
        container = self.of(worker)
        code, output = container.exec_run(["sh", "-c", _OWN_INTERFACE])
        inner, _, peer = output.decode().strip().partition(" ")
        if code != 0 or not peer.isdecimal():
            raise EnvironmentFailure(
                f"the interface of {worker} was not found: "
                f"{output.decode(errors='replace')[-300:]}",
                remedy="see whether it is on a network: `docker inspect` shows it",
            )
        lay(link, inner, self._traffic(f"container:{container.id}"))
        # The bridge's end of the cable, on the daemon's machine: what reaches the container.
        found = self._once("host", f"cd /sys/class/net && grep -lx {peer} */ifindex")
        lay(link, found.partition("/")[0], self._traffic("host"))

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

    def _name(self, worker: str) -> str:
        return f"faultline-{self._run}-{worker}"


class ContainerPlace(FarPlace):
    """A worker's container, whose first process is its agent."""

    java_home, spark_home = Path("/opt/java"), Path("/opt/spark")
    python_path = "/opt/faultline"

    def __init__(self, worker: str, host: str, run: str) -> None:
        super().__init__(worker, Path("/tmp/faultline") / run)
        self._host, self._run = host, run

    def open(self, containers: Containers, mirror: Path, shared: Sequence[Path]) -> None:
        """Start the container and its agent. Raises `EnvironmentFailure`."""
        command = ["python", "-m", "harness.cluster.agent", str(self.directory), self._run]
        container = containers.create(self.name, self._host, command, shared)

        def talk(hear: Callable[[bytes], None], log: Callable[[bytes], None]) -> Attached:
            with failing(f"the container of {self.name} could not be started"):
                attached = Attached(container, hear, log, self._caller.lose)
                container.start()
            return attached

        self.connect(mirror, talk, "the daemon's machine may be short of memory")


class Attached:
    """The streams of a container's first process."""

    def __init__(
        self,
        container: Any,
        hear: Callable[[bytes], None],
        log: Callable[[bytes], None],
        end: Callable[[str], None],
    ) -> None:
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._socket = container.attach_socket(params=streams)
        self._raw = getattr(self._socket, "_sock", self._socket)

        def read() -> None:
            from docker.utils.socket import STDOUT, frames_iter

            with suppress(OSError):
                for stream, data in frames_iter(self._socket, tty=False):
                    (hear if stream == STDOUT else log)(data)
            end("its container has ended")
            self._socket.close()
            self._raw.close()

        self._reader = threading.Thread(target=read, name="container", daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> None:
        self._raw.sendall(data)

    def finish(self, within_s: float) -> bool:
        """Wait for its end; the container is removed with all that is in it."""
        self._reader.join(within_s)
        return not self._reader.is_alive()


def workers_of(client: Any, run: str) -> Mapping[str, bool]:
    """Return the containers of a run by worker: True if it runs."""
    with failing(f"the containers of run {run} cannot be listed"):
        found = client.api.containers(all=True, filters={"label": f"{RUN_LABEL}={run}"})
    states = {each["Labels"][ROLE_LABEL]: each["State"] == "running" for each in found}
    states.pop(_ONCE, None)  # it lives for a moment, and is not a worker
    return dict(sorted(states.items()))


def _users() -> bytes:
    """Pack a name for the container's user, without which Java does not start."""
    users = "root:x:0:0:root:/tmp:/bin/sh\n"
    if os.getuid() != 0:
        users += f"faultline:x:{os.getuid()}:{os.getgid()}:Faultline:/tmp:/bin/sh\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("etc/passwd")
        entry.size, entry.mode = len(users), 0o644
        tar.addfile(entry, io.BytesIO(users.encode()))
    return buffer.getvalue()
