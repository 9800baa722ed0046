"""Frames of nodes to the coordinator, and events of the coordinator for the harness.

A frame that makes no sense raises `Malformed`, which ends its connection. Errors of what is done
with a frame are bugs, and are not caught with it.

Tests: ``tests/engines/tasks/test_coordinator.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.ports import Clock
from harness.engines.tasks.routes import Address, HostedCopies
from harness.hosting.codec import CorruptData, from_parts
from harness.protocol.inputs import HeartbeatReceived

T = TypeVar("T")
ACCEPTING = "connections of other nodes"
"""The place of a node's trouble when it has no file descriptor for a connection to it."""


class Malformed(Exception):
    """A frame that no node of this version sends."""


class Hello(msgspec.Struct, rename={"node": "hello", "token": "connection"}):
    """The first frame of a node."""

    node: int
    boot: int
    token: str
    """Names the connection to its lifeline."""
    address: Address
    """Where it listens for other nodes."""
    process: dict[str, Any]
    clock: Clock
    running: str | None
    """The pass that it hosts already."""


class Lifeline(msgspec.Struct, rename={"node": "lifeline", "token": "connection"}):
    """The first frame of a lifeline, with the token of the connection that it belongs to."""

    node: int
    token: str


class Busy(msgspec.Struct):
    """The time for which a node has been late with its heartbeat."""

    busy_us: int


class Hosting(msgspec.Struct):
    """The copies on a node."""

    run: str
    hosts: HostedCopies


class Unreachable(msgspec.Struct):
    """Another node that a node has tried to reach in vain."""

    to: int
    boot: int
    at: Address
    why: str
    since_us: int
    """When the first attempt failed after which none succeeded."""
    at_us: int
    """Both by the reporting node's clock."""


class Problem(msgspec.Struct):
    """What a node cannot go on with, or without."""

    what: str
    remedy: str = ""
    usage: bool = False
    """True if the user's workload is the cause."""


class Trouble(msgspec.Struct):
    """An error of a client, which the engine goes on from."""

    where: str
    what: str


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """Any later frame: exactly one of these."""

    heartbeat: str | None = None
    """As `harness.hosting.codec.to_parts` writes it; so is a note."""
    hosts: Hosting | None = None
    unreachable: Unreachable | None = None
    note: str | None = None
    problem: Problem | None = None
    trouble: Trouble | None = None


def read(kind: type[T], frame: object) -> T:
    """Return a frame as a value of this type; raise `Malformed` if it is none."""
    try:
        return msgspec.convert(frame, kind)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from error


def read_report(frame: Mapping[str, Any]) -> Report:
    """Return what a frame reports; raise `Malformed` if that is not one thing."""
    if len(frame) != 1:
        raise Malformed(f"a frame of {len(frame)} words")
    return read(Report, frame)


def read_heartbeat(text: str, node: int) -> HeartbeatReceived:
    """Return a heartbeat of a node; raise `Malformed` if it is none."""
    try:
        heartbeat = from_parts(text)
    except CorruptData as error:
        raise Malformed(error.what) from error
    if not isinstance(heartbeat, HeartbeatReceived) or heartbeat.node != node:
        raise Malformed(f"no heartbeat of node {node}")
    return heartbeat


def trouble_of(node: int, where: str, what: str) -> dict[str, Any]:
    """Return the event of a client's error."""
    return {"event": "trouble", "node": node, "where": where, "what": what, "at_us": now_us()}


def problem_of(what: str, remedy: str, node: int = -1, **more: Any) -> dict[str, Any]:
    """Return the event of what the coordinator, or a node, cannot go on with."""
    return {"event": "problem", "node": node, "what": what, "remedy": remedy, **more}
