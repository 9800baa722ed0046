"""The network of a local cluster: loopback addresses, or a network namespace for each worker.

``loopback``: worker n of rack r listens on 127.0.r.n. It needs nothing and can cut nothing.

``namespaces``: the harness was started again inside a user and a network namespace, where it has
all rights over networks and none over the machine. A bridge joins the harness (with Kafka, Redis,
the master and the drivers) and one network namespace per worker, each behind a virtual cable. A cut
takes the worker's end of its cable down: not a byte crosses, its connections stay as TCP leaves
them. No other user of the machine reaches a port inside. A namespace ends with its last process,
so nothing is left behind however the harness ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.cluster.links import (
    Bytes,
    Loopback,
    WorkerLink,
    able,
    complaint,
    interface_bytes,
    lay,
    traffic_control,
)
from harness.cluster.processes import RUN_VARIABLE, identify
from harness.cluster.run_directory import write_journal
from harness.errors import EnvironmentFailure

INSIDE_VARIABLE = "FAULTLINE_INSIDE"
"""Set to `NAMESPACES` for a harness that was started again inside."""
NAMESPACES = "namespaces"

_ENTER = ("unshare", "--user", "--map-root-user", "--net", "--")
_PREFIX = "10.77"


class Namespaces(Loopback):
    """A bridge, and a namespace per worker."""

    host = f"{_PREFIX}.0.1"
    cuts = True
    method = "Network: bytes that crossed the worker's virtual cable, from /proc/net/dev."
    _bridge = "faultline"

    def __init__(self) -> None:
        self._holders: dict[str, subprocess.Popen[bytes]] = {}

    def worker_host(self, rack: int, number: int) -> str:
        """Return the worker's address on the bridge."""
        return f"{_PREFIX}.{rack}.{number}"

    def open(self, run: str, directory: Path, workers: Mapping[str, str]) -> None:
        _ip(
            "link set lo up",
            f"link add {self._bridge} type bridge",
            f"addr add {self.host}/16 dev {self._bridge}",
            f"link set {self._bridge} up",
        )
        self._run, self._directory, self._addresses = run, directory, workers
        for worker in workers:
            self._lay(worker)

    def within(self, worker: str, command: Sequence[str]) -> list[str]:
        if self._holders[worker].poll() is not None:
            self._lay_again(worker)
        return [*self._enter(worker), *command]

    def cut(self, worker: str) -> None:
        """Take the cable down: no byte in or out."""
        _ip(f"link set {_cable(worker)} down")

    def heal(self, worker: str) -> None:
        """Take the cable up again."""
        _ip(f"link set {_cable(worker)} up")

    def shapes(self) -> frozenset[str]:
        # On a device of its own, so that no used device loses a packet.
        _ip("link add try0 type bridge")
        try:
            return able("try0", traffic_control())
        finally:
            _ip("link del try0")

    def shape(self, worker: str, link: WorkerLink | None) -> None:
        lay(link, _cable(worker), traffic_control())
        lay(link, "eth0", traffic_control(self._enter(worker)))

    def counted(self, worker: str) -> Bytes | None:
        far_end = interface_bytes(_cable(worker))
        return far_end and Bytes(received=far_end.sent, sent=far_end.received)

    def close(self) -> None:
        for worker, holder in self._holders.items():
            _unplug(worker)
            holder.kill()
            holder.communicate()
        self._holders.clear()
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)

    def _lay(self, worker: str) -> None:
        """Start a process that keeps the worker's namespace while no worker runs in it.

        A worker that is started again finds its address, its cable and its counters. The process
        ends with its input, so it does not outlive the harness."""
        holder = subprocess.Popen(
            ["unshare", "--net", "--", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), RUN_VARIABLE: self._run},
            start_new_session=True,
        )
        self._holders[worker] = holder
        if (identity := identify(holder.pid)) is not None:
            write_journal(self._directory, f"network of {worker}", identity)
        assert holder.stdout is not None
        holder.stdout.readline()
        cable = _cable(worker)
        _ip(
            f"link add {cable} type veth peer name eth0 netns {holder.pid}",
            f"link set {cable} master {self._bridge}",
            f"link set {cable} up",
        )
        _ip(
            "link set lo up",
            f"addr add {self._addresses[worker]}/16 dev eth0",
            "link set eth0 up",
            prefix=self._enter(worker),
        )

    def _lay_again(self, worker: str) -> None:
        """Replace a namespace whose keeping process was ended, by someone else.

        New processes could not reach those inside any more, so the cable is removed as well."""
        holder = self._holders.pop(worker)
        holder.communicate()
        _unplug(worker)
        self._lay(worker)

    def _enter(self, worker: str) -> list[str]:
        return ["nsenter", "--net", "--target", str(self._holders[worker].pid), "--"]


def _unplug(worker: str) -> None:
    """Remove a worker's cable now, if it is there.

    The kernel does so some time after the namespace at its other end has ended, and until then no
    other cable can have its name."""
    subprocess.run(["ip", "link", "del", _cable(worker)], check=False, capture_output=True)


def inside() -> bool:
    """Return True if this harness was started again inside namespaces."""
    return os.environ.get(INSIDE_VARIABLE) == NAMESPACES


def why_not() -> str | None:
    """Return the reason why no namespace can be entered here; None if one can.

    It is tried, because the settings that forbid it differ between systems and versions."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"there is no program {program} (packages util-linux and iproute2)"
    attempt = "ip link set lo up && ip link add try0 type bridge && unshare --net true"
    done = subprocess.run(
        [*_ENTER, "sh", "-c", attempt], capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else complaint(done.stderr)


def enter(arguments: Sequence[str]) -> None:
    """Replace this process by the same command inside namespaces.

    There is no internet inside, so everything must be fetched before. Raises `EnvironmentFailure`
    where the system forbids it."""
    if (why := why_not()) is not None:
        raise EnvironmentFailure(
            f"this system gives the user no network namespace: {why}",
            remedy="use --network loopback; or allow it (Ubuntu: `sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0`; elsewhere a positive "
            "user.max_user_namespaces; in a container: the privileges for it)",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    command = [*_ENTER, sys.executable, "-P", "-m", "harness.cli", *arguments]
    os.execvpe(command[0], command, {**os.environ, INSIDE_VARIABLE: NAMESPACES})


def _cable(worker: str) -> str:
    """Return the harness's end of a worker's cable; the kernel allows 15 characters."""
    return f"v-{worker}"


def _ip(*commands: str, prefix: Sequence[str] = ()) -> None:
    done = subprocess.run(
        [*prefix, "ip", "-batch", "-"],
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentFailure(
            f"the network could not be laid: {complaint(done.stderr)} (of: {'; '.join(commands)})",
            remedy="use --network loopback on this machine",
        )
