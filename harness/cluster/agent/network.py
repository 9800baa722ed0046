"""The data network of a machine: bytes between the run's own addresses, counted, cut, shaped.

One nftables table of the run counts and cuts; links are laid on two devices of its own (``ifb``),
through which traffic control leads what comes from and goes to the other addresses. SSH passes
untouched, and so does everything with other machines; the machine's own queues stay as they are.
It needs root, or sudo without a password.

All of it is undone by a process of its own that waits for the end of this one, however that comes.

Tests: ``tests/cluster/machines/test_network.py``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from harness.cluster.links import Bytes, WorkerLink, able, complaint, lay, traffic_control
from harness.errors import EnvironmentFailure

PREFIX = "faultline_"
"""Beginning of the names of tables, with the run after it."""
_DEVICES = "fltin", "fltout"
_PRIORITY = 64_017
"""Of our filters among others on the interface."""
_SSH_PORT = 22
_UNDO_LIMIT_S = 10.0
_GRANT = (
    "let `sudo -n true` work for this user there (a line `USER ALL=(ALL) NOPASSWD: ALL` in "
    "/etc/sudoers.d), and install nftables and iproute2; or leave `cuts` out of the file"
)

_TABLE = """\
table inet {table} {{
  set others {{ type ipv4_addr; elements = {{ {others} }} }}
  counter received {{ }}
  counter sent {{ }}
  chain wall {{ }}
  chain in {{
    type filter hook input priority -300; policy accept;
    meta nfproto != ipv4 accept
    tcp dport {port} accept
    ip saddr != @others accept
    jump wall
    counter name received
  }}
  chain out {{
    type filter hook output priority -300; policy accept;
    meta nfproto != ipv4 accept
    tcp sport {port} accept
    ip daddr != @others accept
    jump wall
    counter name sent
  }}
}}
"""


class DataNetwork:
    """The network between this machine and the others of a run.

    Nothing is laid before `open_network`."""

    def __init__(self, run: str) -> None:
        self._table = PREFIX + run
        self._as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        self._tc = traffic_control(self._as_root)
        self._ip = traffic_control(self._as_root, "ip")
        self._others: Sequence[str] = ()
        self._device = ""
        self._guard: subprocess.Popen[bytes] | None = None
        self._shapes: frozenset[str] | None = None

    def open_network(self, address: str, others: Sequence[str]) -> None:
        """Count what goes between ``address`` and the others, and be ready to cut it.

        Raises `EnvironmentFailure` with what to grant."""
        self._others = [other for other in others if other != address]
        text = _TABLE.format(table=self._table, others=", ".join(self._others), port=ssh_port())
        try:
            self._device = device_of(address)
            self._guard = self._guarded()
            self._nft(text)
        except FileNotFoundError as error:
            raise _refused(f"there is no program {error.filename}") from error
        except EnvironmentFailure:
            self.close_network()
            raise

    def cut_off(self) -> None:
        """Let no byte pass between this machine and the others."""
        self._nft(f"add rule inet {self._table} wall drop\n")

    def heal(self) -> None:
        """Let bytes pass again."""
        self._nft(f"flush chain inet {self._table} wall\n")

    def crossed(self) -> Bytes:
        """Return what has passed."""
        text = self._nft(f"list counters table inet {self._table}\n")
        words = text.split()
        values = {
            words[at + 1]: int(words[words.index("bytes", at) + 1])
            for at, word in enumerate(words)
            if word == "counter"
        }
        return Bytes(received=values["received"], sent=values["sent"])

    def shapes(self) -> frozenset[str]:
        """Return the kinds of link that can be laid (`harness.cluster.links`)."""
        if self._shapes is None:
            if any(self._ip(["link", "add", name, "type", "ifb"]) for name in _DEVICES):
                self._shapes = frozenset()
            else:
                self._shapes = able(_DEVICES[0], self._tc)
                if self._shapes and (why := self._led_through()):
                    raise EnvironmentFailure(
                        f"nothing can be led through {' and '.join(_DEVICES)}: {why}",
                        remedy="load the modules ifb, act_mirred and cls_u32 there",
                    )
        return self._shapes

    def shape(self, link: WorkerLink | None) -> None:
        """Lay a link in both directions; None takes it away."""
        self.shapes()
        for device in _DEVICES:
            lay(link, device, self._tc)

    def close_network(self) -> None:
        """Undo everything; return when it is done. May be called twice."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            with suppress(subprocess.TimeoutExpired):  # it goes on by itself
                self._guard.wait(_UNDO_LIMIT_S)
            self._guard = None

    def _led_through(self) -> str | None:
        """Lead what goes between the addresses through the devices; return why it failed.

        Whatever comes to or from SSH is left where it is, by a filter that is asked before."""
        for device in _DEVICES:
            if why := self._ip(["link", "set", device, "up"]):
                return why
        self._tc(["qdisc", "add", "dev", self._device, "clsact"])  # it may be there
        for hook, device, address, port in (
            ("ingress", _DEVICES[0], "src", "dport"),
            ("egress", _DEVICES[1], "dst", "sport"),
        ):
            where = ["filter", "add", "dev", self._device, hook, "protocol", "ip"]
            tcp = ["u32", "match", "ip", "protocol", "6", "0xff"]
            ours = ["match", "ip", port, str(ssh_port()), "0xffff", "flowid", "1:1"]
            if why := self._tc([*where, "prio", str(_PRIORITY), *tcp, *ours]):
                return why
            for other in self._others:
                lead = ["action", "mirred", "egress", "redirect", "dev", device]
                match = ["u32", "match", "ip", address, f"{other}/32", *lead]
                if why := self._tc([*where, "prio", str(_PRIORITY + 1), *match]):
                    return why
        return None

    def _guarded(self) -> subprocess.Popen[bytes]:
        """Start a shell that undoes everything when this process ends, or says so."""
        root, device = " ".join(self._as_root), self._device
        lines = [f"{root} nft delete table inet {self._table}"]
        lines += [
            f"{root} tc filter del dev {device} {hook} prio {priority}"
            for hook in ("ingress", "egress")
            for priority in (_PRIORITY, _PRIORITY + 1)
        ]
        lines += [f"{root} ip link del {name}" for name in _DEVICES]
        return subprocess.Popen(
            ["sh", "-c", "read line\n" + "\n".join(lines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def _nft(self, text: str) -> str:
        done = subprocess.run(
            [*self._as_root, "nft", "-f", "-"],
            input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise _refused(complaint(done.stderr))
        return done.stdout


def _refused(why: str) -> EnvironmentFailure:
    return EnvironmentFailure(f"the machine cannot be cut off: {why}", remedy=_GRANT)


def ssh_port() -> int:
    """Return the port here of the SSH connection that this process belongs to."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return int(words[3]) if len(words) == 4 else _SSH_PORT


def device_of(address: str) -> str:
    """Return the interface that has an address. Raises `EnvironmentFailure`."""
    done = subprocess.run(
        ["ip", "-o", "-4", "addr", "show"], capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        words = line.split()
        if words[3].partition("/")[0] == address:
            return words[1]
    raise EnvironmentFailure(
        f"no interface has the address {address}",
        remedy="give the machine's own `address` in the file of machines",
    )
