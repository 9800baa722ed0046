"""Nodes of a cluster that exists already: broken, mended and asked by the user's commands."""

from __future__ import annotations

import json
import math
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.cluster.base import CLOCK_LIMIT_S, Action, Node, Usage, Victim
from harness.cluster.external.settings import Command, ExternalSettings
from harness.errors import EnvironmentFailure
from harness.text import Notify, format_duration

EFFECT_LIMIT_S = 20.0
"""How long after a command came back its effect may show."""
RETURN_LIMIT_S = 180.0
"""How long a node may take to come back."""
_POLL_S = 0.2

NOT_COUNTED = "not counted: the description of this cluster has no command `usage`"
COUNTED = "whatever the command `usage` of this cluster's description counts"


class ExternalNodes:
    """Safe to use from several threads: the injector acts while others look."""

    def __init__(self, settings: ExternalSettings, environment: Mapping[str, str]) -> None:
        """``environment``: what commands are run with."""
        self._settings, self._environment = settings, environment
        self._lock = threading.RLock()
        self._silent: dict[str, Action] = {}
        """Nodes that were paused or cut, and by what."""

    def alive(self) -> dict[str, bool]:
        nodes = self._settings.nodes
        up = self._on_all(nodes, self._is_up)
        return {node.name: up[node.name] and node.name not in self._silent for node in nodes}

    def demand_up(self) -> None:
        """Raise `EnvironmentFailure` unless every node is up."""
        up = self._on_all(self._settings.nodes, self._is_up)
        if down := [name for name, lives in up.items() if not lives]:
            raise EnvironmentFailure(
                f"{', '.join(down)} of {self._settings.path} {'is' if len(down) == 1 else 'are'} "
                "down by the command `up`",
                remedy="start what is down, or correct the command: it must end with 0 for a node "
                "that is up",
            )

    def apply(self, action: Action, nodes: Sequence[Node]) -> list[Victim]:
        """In one sweep: who is up is asked of all of them first, then it is done to all at once."""
        with self._lock:
            up = self._on_all(nodes, self._is_up)
            found = self._on_all(nodes, lambda node: self._act(action, node, was_up=up[node.name]))
            return [found[node.name] for node in nodes]

    def restore(self, report: Notify) -> None:
        """Mend what was broken here, start what is down, and wait."""
        with self._lock:
            for name, action in list(self._silent.items()):
                node = next(node for node in self._settings.nodes if node.name == name)
                self.apply(Action.RESUME if action is Action.PAUSE else Action.HEAL, [node])
            up = self._on_all(self._settings.nodes, self._is_up)
            for node in self._settings.nodes:
                if not up[node.name]:
                    report(f"starting node {node.name} again")
                    self._run(self._settings.actions[Action.RESTART], node)
            for node in self._settings.nodes:
                if not self._becomes(node, up=True, within_s=RETURN_LIMIT_S):
                    raise EnvironmentFailure(
                        f"node {node.name} is not up {format_duration(RETURN_LIMIT_S)} after it "
                        "was started again",
                        remedy="look at it; its command `restart` may do nothing",
                    )
            self.check_clocks()

    def clock_offset_s(self) -> dict[str, float | None]:
        """How far off a clock is for certain; None without a command `clock`.

        Measured as NTP does, from the middle of the shortest of some questions. The answer was
        given at any instant of the question, so half its length cannot be told from an offset.
        """
        command = self._settings.clock
        if command is None:
            return dict.fromkeys((node.name for node in self._settings.nodes), None)

        def offset(node: Node) -> float | None:
            answers: list[tuple[float, float]] = []
            for _ in range(3):
                before = time.time()
                said = self._run(command, node).strip()
                after = time.time()
                try:
                    answers.append((after - before, float(said) - (before + after) / 2))
                except ValueError as error:
                    raise EnvironmentFailure(
                        f"the command `clock` of node {node.name} said {said[:80]!r}",
                        remedy="it must print seconds since 1970, as `date +%s.%N` does",
                    ) from error
            took_s, found = min(answers)
            return math.copysign(max(0.0, abs(found) - took_s / 2), found)

        return dict(self._on_all(self._settings.nodes, offset))

    def check_clocks(self) -> None:
        """Raise `EnvironmentFailure` for a clock that would decide latencies."""
        for name, offset in self.clock_offset_s().items():
            if offset is not None and abs(offset) > CLOCK_LIMIT_S:
                raise EnvironmentFailure(
                    f"the clock of node {name} is {offset * 1000:+.0f} ms or more off the "
                    f"harness's; {CLOCK_LIMIT_S * 1000:.0f} ms are allowed",
                    remedy="let both keep time by NTP (chrony)",
                )

    def usage(self) -> dict[str, Usage]:
        command = self._settings.usage
        if command is None:
            nothing = Usage(
                cpu_s=None,
                resident_bytes=None,
                received_bytes=None,
                sent_bytes=None,
                method=NOT_COUNTED,
            )
            return dict.fromkeys((node.name for node in self._settings.nodes), nothing)
        return dict(self._on_all(self._settings.nodes, lambda node: self._usage(command, node)))

    def _usage(self, command: Command, node: Node) -> Usage:
        said = self._run(command, node)
        try:
            counts: dict[str, Any] = json.loads(said)
            return Usage(
                cpu_s=counts.get("cpu_s"),
                resident_bytes=counts.get("resident_bytes"),
                received_bytes=counts.get("received_bytes"),
                sent_bytes=counts.get("sent_bytes"),
                method=COUNTED,
            )
        except (ValueError, AttributeError) as error:
            raise EnvironmentFailure(
                f"the command `usage` of node {node.name} said {said[:80]!r}",
                remedy="it must print a JSON object with cpu_s, resident_bytes, received_bytes and "
                "sent_bytes, or some of them",
            ) from error

    def _act(self, action: Action, node: Node, *, was_up: bool) -> Victim:
        victim_if = {Action.RESTART: not was_up, Action.RESUME: True, Action.HEAL: True}
        if not victim_if.get(action, was_up):
            return Victim(node=node.name, reached=False, at_unix_s=time.time())
        began_unix_s = time.time()
        self._run(self._settings.actions[action], node)
        at_unix_s = time.time()
        if action is Action.KILL and not self._becomes(node, up=False, within_s=EFFECT_LIMIT_S):
            raise EnvironmentFailure(
                f"node {node.name} is up {format_duration(EFFECT_LIMIT_S)} after its command `kill`"
                " ended well",
                remedy="the command does not kill it, or `up` asks something else that lives: try "
                "both by hand",
            )
        if action in (Action.PAUSE, Action.CUT):
            self._silent[node.name] = action
        else:
            self._silent.pop(node.name, None)
        return Victim(node=node.name, reached=True, began_unix_s=began_unix_s, at_unix_s=at_unix_s)

    def _becomes(self, node: Node, *, up: bool, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while self._is_up(node) != up:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _is_up(self, node: Node) -> bool:
        return self._started(self._settings.up, node).returncode == 0

    def _run(self, command: Command, node: Node) -> str:
        done = self._started(command, node)
        if done.returncode != 0:
            raise ended_badly(command, self._settings.variables[node.name], done)
        return done.stdout

    def _started(
        self, command: Command, node: Node, **more: str
    ) -> subprocess.CompletedProcess[str]:
        words = command.filled({**self._settings.variables[node.name], **more})
        try:
            return subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=dict(self._environment),
                timeout=self._settings.timeout_s,
                check=False,
            )
        except OSError as error:
            raise EnvironmentFailure(
                f"`{words[0]}` cannot be started: {error.strerror}",
                remedy=f"install it, or correct the commands in {self._settings.path}",
            ) from error
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFailure(
                f"`{' '.join(words)}` did not end within {self._settings.timeout_s:g} s",
                remedy=f"raise commands.timeout_s in {self._settings.path}, or mend the command",
            ) from error

    def _on_all(self, nodes: Sequence[Node], do: Callable[[Node], Any]) -> dict[str, Any]:
        with ThreadPoolExecutor(max(1, len(nodes))) as pool:
            return dict(zip((node.name for node in nodes), pool.map(do, nodes), strict=True))


def ended_badly(
    command: Command, values: Mapping[str, str], done: subprocess.CompletedProcess[str]
) -> EnvironmentFailure:
    """A command that could not do its part."""
    return EnvironmentFailure(
        f"`{' '.join(command.filled(values))}` ended with exit code {done.returncode}: "
        f"{done.stderr.strip()[-500:]}",
        remedy="try the command by hand",
    )
