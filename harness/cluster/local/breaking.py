"""Kafka's brokers and Redis as targets of a failure: killed, frozen, started again."""

from __future__ import annotations

import time

from harness.cluster.agent.finding import Part
from harness.cluster.agent.launching import Server
from harness.cluster.agent.striking import strike
from harness.cluster.base import Action, Prepared, Victim
from harness.cluster.processes import HostProcess
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
    found = server.process.identity
    host = (
        HostProcess(worker="", pid=found.pid, started_ticks=found.started_ticks) if found else None
    )
    part = Part(node=name, worker="", shared=True, host=host)

    def before() -> None:
        server.down = server.down or action is Action.KILL

    return strike(action, [(server.launcher.place, [part])], before=before)


def revive(server: Server, name: str) -> bool:
    """Thaw a server, start it again if it is dead; return True if it may not answer yet."""
    if server.down:
        server.begin_again()
    else:
        with prepare(server, name, Action.RESUME) as thaw:
            thaw.apply()
    return server.lives > 1


def _start_again(server: Server, name: str) -> Victim:
    began = time.time()
    if dead := server.down:
        server.begin_again()
    return Victim(node=name, reached=dead, began_unix_s=began, at_unix_s=time.time())
