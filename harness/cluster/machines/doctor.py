"""Checks of the machines of a file, for ``faultline doctor --cluster FILE``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from harness.cluster.machines import sending
from harness.cluster.machines.settings import Host, Machines, read_machines
from harness.cluster.machines.ssh import Connection, Loop
from harness.environment.doctor import Finding, Status
from harness.errors import EnvironmentFailure
from harness.text import format_bytes, format_duration

_LEAST_FREE_BYTES = 3 << 30
_ROUNDS = 5
_PROBE_BYTES = 4 << 20
_PROBE = """\
echo "cores $(getconf _NPROCESSORS_ONLN)"
echo "memory $(awk '/^MemAvailable/ {print $2}' /proc/meminfo)"
echo "clock $(date +%s.%N)"
"""
_TRY = """\
R=; [ "$(id -u)" = 0 ] || R="sudo -n"
if ! $R true 2>/dev/null; then echo "cuts no root, and no sudo without a password"; exit 0; fi
for p in nft tc ip; do
  $R sh -c "command -v $p" >/dev/null 2>&1 || { echo "cuts no program $p"; exit 0; }
done
$R nft list tables >/dev/null 2>&1 && echo "cuts yes" || echo "cuts no nftables in its kernel"
if $R ip link add flttry type ifb 2>/dev/null; then
  $R tc qdisc replace dev flttry root tbf rate 1mbit burst 32k latency 9ms 2>/dev/null &&
    echo "rate yes"
  $R tc qdisc replace dev flttry root netem delay 1ms 2>/dev/null && echo "latency yes"
  $R ip link del flttry
fi
exit 0
"""
"""Tries what cuts and links need (`harness.cluster.agent.network`), on an unused device."""


def examine(path: Path) -> list[Finding]:
    """Return a finding for each machine, that of the services included.

    Raises `UsageError` for a mistake in the file."""
    machines = read_machines(path)
    loop = Loop()
    try:
        return [_machine(machines, host, loop) for host in machines.everyone]
    finally:
        loop.close()


def _machine(machines: Machines, host: Host, loop: Loop) -> Finding:
    try:
        with closing(Connection(host.ssh, loop, config=machines.config)) as connection:
            return _reached(machines, host, connection)
    except EnvironmentFailure as failure:
        return Finding(
            name=host.ssh, status=Status.MISSING, detail=failure.what, remedy=failure.remedy
        )


def _reached(machines: Machines, host: Host, connection: Connection) -> Finding:
    found = sending.look(connection, machines.directory)
    sending.demand_like(host.ssh, found)
    before = time.time()
    done = connection.run(_PROBE)
    after = time.time()
    lines = (done.stdout + connection.run(_TRY).stdout).splitlines()
    values = dict(line.partition(" ")[::2] for line in lines)
    trip_s = min(_took_s(lambda: connection.run("true")) for _ in range(_ROUNDS))
    sent_s = _took_s(lambda: connection.run("cat >/dev/null", [b"\0" * (1 << 18)] * 16))
    offset_s = float(values.get("clock") or before) - (before + after) / 2
    role = f"{host.rack}, {host.workers} worker(s)"
    if host not in machines.machines:
        role = "Kafka, Redis and the Spark master, no workers"
    told = [
        f"{role}; {values.get('cores', '?')} cores, "
        f"{format_bytes(int(values.get('memory') or 0) * 1024)} of memory available, "
        f"{format_bytes(found.free_bytes)} of disk in {found.directory}",
        f"{found.kernel}, {found.libc}, "
        + (f"Python {found.python}" if found.python else "no Python like ours: it will be sent"),
        f"a command and back {format_duration(trip_s)}, {format_bytes(_PROBE_BYTES / sent_s)}/s "
        f"by SSH; its clock {offset_s * 1e3:+.0f} ms, to {(after - before) * 500:.0f} ms",
        _network(values),
        f"here already: {', '.join(sorted(found.has)) or 'nothing, so the first run sends it'}",
    ]
    if found.free_bytes >= _LEAST_FREE_BYTES:
        return Finding(name=host.ssh, status=Status.OK, detail="\n".join(told))
    problem = f"less than {format_bytes(_LEAST_FREE_BYTES)} of disk are free"
    return Finding(
        name=host.ssh,
        status=Status.WARNING,
        detail="\n".join([problem, *told]),
        remedy="free some, or give another `directory` in the file of machines",
    )


def _network(values: Mapping[str, str]) -> str:
    if values.get("cuts") != "yes":
        return f"cannot be cut off: {values.get('cuts', 'its shell gave no answer')}"
    kinds = [kind for kind in ("rate", "latency") if values.get(kind) == "yes"]
    links = f"links can have a {' and a '.join(kinds)}" if kinds else "no links, for want of ifb"
    return f"can be cut off (with `cuts: true`); {links}"


def _took_s(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return max(time.monotonic() - began, 1e-6)
