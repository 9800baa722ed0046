"""The workers of a Docker cluster and the nodes on them: breaking, mending and counting.

A worker is a container. Where a node is a worker, Docker does everything to it: SIGKILL to its
first process ends all of them, the freezer stops them at one instant, the network is taken away
and given back with the same address. Where several nodes share a worker,
`harness.cluster.docker.inside` tells them apart by their process trees.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from harness.cluster.base import Action, Node, Usage, Victim
from harness.cluster.docker.containers import Containers
from harness.cluster.docker.counters import Counted, counted
from harness.cluster.docker.daemon import told
from harness.cluster.docker.slots import Share, Slot
from harness.cluster.docker.trees import Tree, perform
from harness.cluster.links import WorkerLink
from harness.cluster.processes import HostProcess
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify, format_duration

START_LIMIT_S = 180.0
_REREGISTERED_LIMIT_S = 20.0
"""A worker that was frozen or cut off registers again with its next heartbeat, or after up to 15 s
if the master had given it up; after this long it is started anew."""
_POLL_S = 0.05


class DockerWorkers:
    """Safe to use from several threads: the injector acts while others look."""

    def __init__(
        self,
        containers: Containers,
        nodes: Sequence[Node],
        start: Callable[[str, str], None],
        registered: Callable[[str], bool],
    ) -> None:
        """``start(worker, log name)`` starts its container, ``registered(log name)`` says whether
        the master has that incarnation on its list."""
        self._containers = containers
        self._start = start
        self._registered = registered
        self._lock = threading.RLock()
        self._slots: dict[str, Slot] = {}
        for node in nodes:
            slot = self._slots.setdefault(node.worker, Slot(name=node.worker, address=node.host))
            slot.shares.append(Share(node=node))
        self._shared = any(len(slot.shares) > 1 for slot in self._slots.values())

    def begin(self, report: Notify) -> None:
        """Start every worker and wait until the master has them all."""
        with self._lock:
            everyone = list(self._slots.values())
            self._launch_all(everyone)
            self._wait(everyone, report)

    def register_host(self, node: str, host: HostProcess) -> None:
        share, slot = self._find(node)
        if not self._shared:
            raise UsageError(
                f"node {node} is a whole worker, so no process can be registered for it",
                remedy="start the cluster with nodes_per_worker of 2 or more",
            )
        if host.worker != slot.name or not self._to_trees(slot, [host], "look")[0].reached:
            raise UsageError(
                f"process {host.pid} of worker {host.worker!r} cannot host node {node}: it is no "
                f"living process of worker {slot.name}",
                remedy="register what `HostProcess.here()` says in the node's own task, while it "
                "runs",
            )
        with self._lock:
            if share.host is not None and share.host != host:
                share.spent_cpu_s += self._to_trees(slot, [share.host], "look")[0].cpu_s
                share.paused = False
            share.host = host

    def alive(self) -> dict[str, bool]:
        with self._lock:
            states = self._containers.states()
            lives: dict[str, bool] = {}
            for slot in self._slots.values():
                up = states.get(slot.name) == "running" and not slot.cut and self._has(slot)
                seen = self._seen(slot) if up else {}
                for share in slot.shares:
                    hosted = share.host is None or seen.get(share.node.name, Tree()).reached
                    lives[share.node.name] = up and hosted and not share.paused
            return lives

    def usage(self) -> dict[str, Usage]:
        with self._lock:
            if not self._shared:
                return {
                    s.shares[0].node.name: s.usage(self._counted(s)) for s in self._slots.values()
                }
            states = self._containers.states()
            return {
                name: usage
                for slot in self._slots.values()
                for name, usage in slot.usages(
                    self._seen(slot) if states.get(slot.name) == "running" else {}
                ).items()
            }

    def apply(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> list[Victim]:
        with self._lock, told(f"{action} of {', '.join(node.name for node in nodes)} failed"):
            whole = rack or not self._shared
            chosen = {node.name for node in nodes}
            if action is Action.RESTART or (whole and action not in (Action.CUT, Action.HEAL)):
                return self._to_containers(action, chosen)
            if action in (Action.CUT, Action.HEAL):
                if not whole:
                    raise UsageError(
                        f"node {nodes[0].name} cannot be taken off the network alone: the nodes of "
                        f"worker {nodes[0].worker} share its interface",
                        remedy="cut its rack, or start a cluster with one node to a worker",
                    )
                return self._to_containers(action, chosen)
            return self._to_hosts(action, nodes)

    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
        with self._lock, told("a link could not be laid"):
            for worker in sorted(workers):
                slot = self._slots[worker]
                changed, slot.link = slot.link != link, link
                if changed and not slot.cut and self._containers.states().get(worker) == "running":
                    self._containers.shape(worker, link)

    def restore(self, report: Notify) -> None:
        """Every worker on the network, running, and registered with the master."""
        with self._lock, told("the cluster could not be restored"):
            everyone = {share.node.name for slot in self._slots.values() for share in slot.shares}
            self.shape(self._slots, None)
            self._to_containers(Action.HEAL, everyone)
            self._to_containers(Action.RESUME, everyone)
            for slot in self._slots.values():
                frozen = [share.node for share in slot.shares if share.paused]
                if self._shared and frozen:
                    self._to_hosts(Action.RESUME, frozen)
            states = self._containers.states()
            living = [s for s in self._slots.values() if states.get(s.name) == "running"]
            deadline = time.monotonic() + _REREGISTERED_LIMIT_S
            while time.monotonic() < deadline and not all(map(self._has, living)):
                time.sleep(_POLL_S)
            missing = [s for s in self._slots.values() if s not in living or not self._has(s)]
            self._launch_all(missing)
            self._wait(missing, report)

    def _launch_all(self, slots: Sequence[Slot]) -> None:
        with ThreadPoolExecutor(max(1, len(slots))) as pool:
            list(pool.map(self._launch, slots))

    def _launch(self, slot: Slot) -> None:
        slot.bank(self._counted(slot))
        slot.incarnation += 1
        slot.cut = False
        for share in slot.shares:
            share.paused = False
        self._start(slot.name, slot.log_name)
        self._lay_again(slot)

    def _lay_again(self, slot: Slot) -> None:
        """A new container, and one that is back on the network, has a new cable."""
        if slot.link is not None:
            self._containers.shape(slot.name, slot.link)

    def _wait(self, slots: Sequence[Slot], report: Notify) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        waiting = list(slots)
        while waiting:
            states = self._containers.states()
            for slot in list(waiting):
                if self._has(slot):
                    waiting.remove(slot)
                    report(f"Spark worker {slot.name} answers")
                elif states.get(slot.name) != "running" or time.monotonic() > deadline:
                    raise self._not_up(slot, states.get(slot.name, "gone"))
            time.sleep(_POLL_S)

    def _not_up(self, slot: Slot, state: str) -> EnvironmentFailure:
        return start_failure(f"Spark worker {slot.name}", state, self._containers, slot.log_name)

    def _has(self, slot: Slot) -> bool:
        return self._registered(slot.log_name)

    def _to_containers(self, action: Action, chosen: set[str]) -> list[Victim]:
        """To the whole workers under the chosen nodes, all of them in one sweep: what they have
        used is read before it, and their ends are awaited after it."""
        slots = [s for s in self._slots.values() if chosen & {x.node.name for x in s.shares}]
        states = self._containers.states()
        reached = [slot for slot in slots if slot.fits(action, states.get(slot.name, "gone"))]
        executors = {slot.name: self._executors(slot) for slot in slots if action in _ENDS_OR_STOPS}
        with ThreadPoolExecutor(len(slots)) as pool:
            if action in (Action.KILL, Action.CUT):
                for slot, used in zip(reached, pool.map(self._counted, reached), strict=True):
                    slot.bank(used, only_network=action is Action.CUT)
            began_unix_s = time.time()
            list(pool.map(partial(self._to_container, action), reached))
            at_unix_s = time.time()
            list(pool.map(partial(self._settle, action), reached))
        hit = {slot.name for slot in reached}
        return [
            Victim(
                node=share.node.name,
                reached=slot.name in hit,
                executors=executors.get(slot.name),
                began_unix_s=began_unix_s if slot.name in hit else None,
                at_unix_s=at_unix_s,
            )
            for slot in slots
            for share in slot.shares
            if share.node.name in chosen
        ]

    def _to_container(self, action: Action, slot: Slot) -> None:
        """One order to the daemon."""
        match action:
            case Action.RESTART:
                self._launch(slot)
            case Action.KILL:
                self._containers.of(slot.name).kill("SIGKILL")
            case Action.PAUSE:
                self._containers.of(slot.name).pause()
            case Action.RESUME:
                self._containers.of(slot.name).unpause()
            case Action.CUT:
                self._containers.cut(slot.name)
            case Action.HEAL:
                self._containers.heal(slot.name, slot.address)

    def _settle(self, action: Action, slot: Slot) -> None:
        """Until it has taken effect."""
        if action is Action.KILL:
            self._containers.of(slot.name).wait(timeout=60)
            for share in slot.shares:
                share.paused = False
        if action in (Action.CUT, Action.HEAL, Action.KILL):
            slot.cut = action is Action.CUT
        if action is Action.HEAL and self._containers.states().get(slot.name) == "running":
            self._lay_again(slot)

    def _to_hosts(self, action: Action, nodes: Sequence[Node]) -> list[Victim]:
        """To some of the nodes that share containers: in each container in one sweep, and in all
        of them at once."""
        chosen = {node.name for node in nodes}
        states = self._containers.states()
        slots = [s for s in self._slots.values() if chosen & {x.node.name for x in s.shares}]

        def act(slot: Slot) -> list[Victim]:
            shares = [share for share in slot.shares if share.node.name in chosen]
            return self._to_shares(action, slot, shares, states.get(slot.name) == "running")

        with ThreadPoolExecutor(len(slots)) as pool:
            return [victim for victims in pool.map(act, slots) for victim in victims]

    def _to_shares(
        self, action: Action, slot: Slot, shares: Sequence[Share], running: bool
    ) -> list[Victim]:
        """To nodes of one container."""
        hosts = {share.node.name: share.host for share in shares if running and share.host}
        done = self._to_trees(slot, list(hosts.values()), action.value)
        trees = dict(zip(hosts, done, strict=True))
        victims = []
        for share in shares:
            tree = trees.get(share.node.name, Tree())
            if tree.reached:
                share.paused = action is Action.PAUSE
            if action is Action.KILL:
                share.spent_cpu_s += tree.cpu_s
            victims.append(
                Victim(
                    node=share.node.name,
                    reached=tree.reached,
                    executors=int(tree.reached),
                    began_unix_s=tree.began_unix_s,
                    at_unix_s=tree.at_unix_s or time.time(),
                )
            )
        return victims

    def _to_trees(self, slot: Slot, hosts: Sequence[HostProcess], order: str) -> list[Tree]:
        return perform(self._containers, slot.name, hosts, order)

    def _seen(self, slot: Slot) -> dict[str, Tree]:
        """The processes of a container's nodes, of those that have said where they live."""
        hosts = {share.node.name: share.host for share in slot.shares if share.host is not None}
        found = self._to_trees(slot, list(hosts.values()), "look")
        return dict(zip(hosts, found, strict=True))

    def _executors(self, slot: Slot) -> int | None:
        from docker.errors import APIError, NotFound

        try:
            rows = self._containers.of(slot.name).top()["Processes"]
        except (APIError, NotFound):  # it does not run
            return 0
        return sum("CoarseGrainedExecutorBackend" in " ".join(row) for row in rows or ())

    def _counted(self, slot: Slot) -> Counted:
        return counted(self._containers, slot.name)

    def _find(self, node: str) -> tuple[Share, Slot]:
        for slot in self._slots.values():
            for share in slot.shares:
                if share.node.name == node:
                    return share, slot
        raise UsageError(
            f"this cluster has no node {node!r}",
            remedy="use one of "
            + ", ".join(share.node.name for s in self._slots.values() for share in s.shares),
        )


_ENDS_OR_STOPS = (Action.KILL, Action.PAUSE, Action.CUT)


def start_failure(
    title: str, state: str, containers: Containers, log_name: str
) -> EnvironmentFailure:
    """A server that ended, or did not answer in time: its state and its last words."""
    log = containers.log(log_name)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    shown = "\n".join(f"    {line}" for line in lines[-12:]) or "    (it wrote nothing)"
    limit = format_duration(START_LIMIT_S)
    how = f"did not answer within {limit}" if state == "running" else "did not start"
    return EnvironmentFailure(
        f"{title} {how}; its container is {state}. The last lines of {log}:\n{shown}",
        remedy="read the whole log; if the container was killed, the daemon's machine may be short "
        "of memory",
    )
