"""Kafka's broker and Redis as targets of a failure: killed, frozen, started again."""

from __future__ import annotations

import signal
import time

from harness.cluster.base import Action, Prepared, Victim
from harness.cluster.killing import SIGNALS, prepare_kill
from harness.cluster.launching import Server
from harness.cluster.processes import send_signal, tree
from harness.errors import UsageError

ACTIONS = (Action.KILL, Action.RESTART, Action.PAUSE, Action.RESUME)


def prepare(server: Server, name: str, action: Action) -> Prepared:
    """Find the processes of a server; `Prepared.apply` signals them, or starts it again."""
    if action not in ACTIONS:
        raise UsageError(
            f"the {name} cannot be {action.value}",
            remedy="use " + ", ".join(one.value for one in ACTIONS),
        )
    if action is Action.RESTART:
        return Prepared(lambda: [_start_again(server, name)])
    assert server.child is not None, "it was started"

    def before() -> None:
        server.down = server.down or action is Action.KILL

    return prepare_kill(name, tree([server.child.process.pid]), before, SIGNALS[action])


def revive(server: Server) -> bool:
    """Thaw a server, start it again if it is dead; return True if it may not answer yet."""
    assert server.child is not None, "it was started"
    if server.down:
        server.begin_again()
    elif server.child.identity is not None and server.child.running():
        send_signal(server.child.identity, signal.SIGCONT)
    return server.lives > 1


def _start_again(server: Server, name: str) -> Victim:
    began = time.time()
    if dead := server.down:
        server.begin_again()
    return Victim(node=name, reached=dead, began_unix_s=began, at_unix_s=time.time())
