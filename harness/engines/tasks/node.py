"""A node: one long-lived process that hosts a pass after the other.

It connects to the coordinator, is given a `Job`, and hosts it (`hosted`) until the next one.
It lives in a Spark task (`run_node`), which says nothing to Spark until it ends. Its boot number
comes from Redis, so that a task that Spark starts again on its own is a new life.

Tests: ``tests/engines/tasks/test_live.py``."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
from redis.exceptions import RedisError

from harness.cluster.endpoints import RedisEndpoint, Tls
from harness.engines.tasks.control import Connection, connect, frame_of
from harness.engines.tasks.direct import SCARCE, Peers
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.job import Job
from harness.engines.tasks.operations import Running
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.ports import LIVE, Ports
from harness.engines.tasks.reports import ACCEPTING, Unreachable
from harness.engines.tasks.store import Store
from harness.engines.tasks.wire import contexts
from harness.errors import FaultlineError, UsageError
from harness.hosting.codec import CorruptData, from_parts

RECONNECT_WITHIN_S = 120.0
"""Seconds that a node goes on without a coordinator before it gives up."""
BOOT_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArguments:
    """The arguments of a node's process, which reach it through Spark alone."""

    node: int
    coordinator: tuple[str, int]
    secret: str = field(repr=False)
    kafka: Mapping[str, Any] = field(repr=False)
    """Settings of its clients."""
    redis: RedisEndpoint
    tls: Tls | None
    run: str
    """Keeps the boot numbers of the engine's nodes apart from those of others."""


class CoordinatorLink:
    """The connection to the coordinator, made again when the coordinator comes back."""

    def __init__(self, arguments: NodeArguments, boot: int, ports: Ports) -> None:
        self._arguments, self._ports = arguments, ports
        self._boot = boot
        _, self._tls = contexts(arguments.tls)
        self._line: Connection | None = None
        """The lifeline, where no thread can hold it."""
        self._connection: Connection | None = None
        self._problem: Mapping[str, Any] | None = None
        self._beaten_us = self._every_us = 0
        """When the last heartbeat was sent, and their interval; 0 without a pass."""

    def beats(self, every_us: int) -> None:
        """Begin a pass with this interval of heartbeats; 0: end it."""
        self._beaten_us, self._every_us, self._problem = now_us(), every_us, None

    def busy(self) -> bytes | None:
        """Return a frame for the lifeline if the loop is late with its heartbeat."""
        every, beaten = self._every_us, self._beaten_us
        if not every or now_us() - beaten <= 2 * every:
            return None
        return frame_of({"busy_us": now_us() - beaten})

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a frame; it is lost while there is no coordinator."""
        if "heartbeat" in document:
            self._beaten_us = now_us()
            if self._problem is not None:
                self.send(self._problem)
        if self._connection is not None:
            self._connection.send(document)

    def problem(self, error: BaseException) -> None:
        """Tell what this node cannot go on with, or without, until the pass is over.

        The coordinator may be away, and what is sent to it get lost: it is told again."""
        document: dict[str, Any]
        if isinstance(error, FaultlineError):
            usage = isinstance(error, UsageError)
            document = {"what": error.what, "remedy": error.remedy, "usage": usage}
        else:
            lines = traceback.format_exception(error)
            document = {"what": "".join(lines)[-4000:], "remedy": "this is a bug: please report it"}
        self._problem = {"problem": document}
        self.send(self._problem)

    async def leave(self) -> None:
        """Send the waiting frames, and close."""
        if self._connection is not None:
            await self._connection.leave()

    async def connect(self, peers: Peers, hosted: Hosted | None) -> Connection:
        """Connect, and report this node's name, its address, the pass it runs and its copies.

        It listens where it is connected from, so that no address has to be configured: on whatever
        network reaches the coordinator, other nodes do, too."""
        host, port = self._arguments.coordinator
        secret = bytes.fromhex(self._arguments.secret)
        connection = await connect(host, port, secret, within_s=RECONNECT_WITHIN_S, tls=self._tls)
        address = peers.address or await peers.listen(connection.own_host())
        token = secrets.token_hex(8)
        connection.send(
            {
                "hello": self._arguments.node,
                "boot": self._boot,
                "connection": token,
                "process": dict(self._ports.process()),
                "clock": asdict(self._ports.clock()),
                "address": list(address),
                "running": hosted.job.run if hosted is not None else None,
            }
        )
        if hosted is not None:
            connection.send({"hosts": hosted.where()})
        self._connection = connection
        await self._open_lifeline(host, port, secret, token)
        return connection

    async def _open_lifeline(self, host: str, port: int, secret: bytes, token: str) -> None:
        """Open a second connection, which shows the death of this process sooner than the first.

        Where no thread can hold it alone, it shows it together with the first."""
        line = await connect(host, port, secret, within_s=RECONNECT_WITHIN_S, tls=self._tls)
        line.send({"lifeline": self._arguments.node, "connection": token})
        dropped = threading.Event()
        if self._ports.hold(line, lambda: self.busy() if dropped.is_set() else None):
            await line.drop()
            dropped.set()
        else:
            self._line = line


class NodeProcess:
    """A node's process, from its first connection to its end."""

    hosted: type[Hosted] = Hosted

    def __init__(self, arguments: Mapping[str, Any], ports: Ports = LIVE) -> None:
        """``arguments``: a document of `NodeArguments`."""
        given = self._arguments = msgspec.convert(arguments, NodeArguments)
        self._ports, self._store = ports, ports.store(given.redis, given.run)
        self._hosted: Hosted | None = None
        self._pass_store: Store | None = None
        self._parent = os.getppid()

    async def run(self) -> None:
        """Return when the coordinator reports the end of the engine."""
        self._closing = Running()  # what closes the stores of earlier passes
        boot = await self._boot()
        link = CoordinatorLink(self._arguments, boot, self._ports)
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def handle(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, OSError) and error.errno in SCARCE:
                what = os.strerror(error.errno or 0)  # nobody is accepted until there is some
                link.send({"trouble": {"where": ACCEPTING, "what": what}})
            elif not failed.done():
                failed.set_exception(error or RuntimeError("an error without an exception"))

        asyncio.get_running_loop().set_exception_handler(handle)
        peers = self._peers(link, boot)
        serving = asyncio.ensure_future(self._serve(link, peers))
        first: set[asyncio.Future[None]] = {serving, failed}
        done, _ = await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        peers.close()
        error = done.pop().exception()
        if error is not None:
            link.problem(error)
            await link.leave()
            raise error

    def _peers(self, link: CoordinatorLink, boot: int) -> Peers:
        """Return the connections to other nodes, which listen nowhere yet."""

        def trouble(found: Unreachable) -> None:
            link.send({"unreachable": msgspec.to_builtins(found)})

        def scarce(what: str) -> None:
            link.send({"trouble": {"where": "connections to other nodes", "what": what}})

        return Peers(
            self._arguments.node,
            boot,
            bytes.fromhex(self._arguments.secret),
            tls=self._arguments.tls,
            trouble=trouble,
            scarce=scarce,
        )

    async def _boot(self) -> int:
        """Return this process's boot number.

        Without one it cannot be told from the process before it, so it waits while the store is
        away or full."""
        while True:
            try:
                return await self._store.next_boot(self._arguments.node)
            except (RedisError, OSError):
                await asyncio.sleep(BOOT_AGAIN_S)

    async def _serve(self, link: CoordinatorLink, peers: Peers) -> None:
        while True:
            connection = await link.connect(peers, self._hosted)
            while (frame := await connection.receive()) is not None:
                try:
                    goes_on = self._follow(frame, link, peers)
                except CorruptData:
                    connection.close()  # it is connected again
                    break
                if not goes_on:
                    connection.close()
                    return
            connection.close()  # a damaged frame ends it at this end alone
            if os.getppid() != self._parent:
                return  # the executor is gone, and this process was left behind

    def _follow(self, frame: Mapping[str, Any], link: CoordinatorLink, peers: Peers) -> bool:
        """Carry out a frame; return False at the end."""
        if "order" in frame:
            self._tell(frame["order"])
        elif "begin" in frame and not self._runs(frame["begin"]):
            self._begin(frame["begin"], link, peers)
        elif "routes" in frame:
            if self._hosted is not None:
                self._hosted.messages.routed(frame["routes"])
        elif "to" in frame:
            self._tell(frame["to"])
        elif "end" in frame:
            self._end_pass()
            link.beats(0)
            peers.receiver = None
        return "leave" not in frame

    def _begin(self, document: Mapping[str, Any], link: CoordinatorLink, peers: Peers) -> None:
        """Host a pass; report a program that cannot be built, and host nothing then."""
        job = Job.from_json(document)
        self._end_pass()
        peers.receiver = None
        try:
            job.program  # noqa: B018  # built here, where the user's code may raise
        except FaultlineError as error:
            link.problem(error)
            return
        given, store = self._arguments, self._ports.store(self._arguments.redis, job.run)
        self._pass_store, store.refused = store, link.problem
        self._hosted = self.hosted(
            given.node, peers.boot, job, given.kafka, peers, store, link, self._ports.log
        )
        peers.receiver = self._hosted
        link.beats(job.scheme.heartbeat_us)
        self._hosted.start()

    def _runs(self, begin: Any) -> bool:
        """Return True if this pass is hosted already, which a restarted coordinator cannot see."""
        run = begin.get("run") if isinstance(begin, Mapping) else None
        return self._hosted is not None and self._hosted.job.run == run

    def _tell(self, head: str) -> None:
        """Hand over an order, or the coordinator's message to a copy here."""
        if self._hosted is not None:
            self._hosted.hear(from_parts(head))

    def _end_pass(self) -> None:
        if self._hosted is not None:
            self._hosted.stop()
            self._hosted = None
        if self._pass_store is not None:
            store, self._pass_store = self._pass_store, None
            self._closing.start(_close(store))


async def _close(store: Store) -> None:
    """Its connections: a pass that is over needs none. A server that is away has none either."""
    with suppress(RedisError, OSError):
        await store.close()


def run_node(arguments: Mapping[str, Any]) -> None:
    """Run a node as a Spark task, until it gets the order to leave or is killed."""
    asyncio.run(NodeProcess(arguments).run())
