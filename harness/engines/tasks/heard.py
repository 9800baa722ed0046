"""What the coordinator hears from nodes on control connections, read from JSON.

A frame that makes no sense raises `Malformed`, which ends its connection. Errors of what is done
with a frame are bugs, and are not caught with it.

Tests: ``tests/engines/tasks/test_heard.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.engines.tasks.clocks import Clock
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.routes import Address
from harness.hosting.codec import CorruptData, from_parts
from harness.protocol.inputs import HeartbeatReceived

T = TypeVar("T")


class Malformed(Exception):
    """A frame that no node of this version sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame of a node."""

    node: int
    boot: int
    token: str
    """Names the connection to its lifeline."""
    address: Address
    """Where it listens for other nodes."""
    process: Mapping[str, Any]
    running: str | None
    """The pass that it hosts already."""
    shift_us: int
    """The difference to add to its instants for this process's clock."""

    @classmethod
    def read(cls, document: Mapping[str, Any], here: Clock) -> Hello:
        """Return the hello in a frame; ``here`` is this process's clock."""
        return _read(
            lambda: cls(
                node=_whole(document["hello"]),
                boot=_whole(document["boot"]),
                token=str(document["connection"]),
                address=_address(document["address"]),
                process=dict(document["process"]),
                running=document["running"],
                shift_us=here.shift_us(Clock.from_json(document["clock"])),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The copies on a node."""

    run: str
    hosts: list[Any]
    """Their version, and (task, incarnation) of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """Another node that a node has tried to reach in vain."""

    to: int
    boot: int
    at: Address
    why: str
    since_us: int
    """When the first attempt failed after which none succeeded."""
    at_us: int
    """Both by the reporting node's clock."""


Heard = HeartbeatReceived | Where | Unreachable | dict[str, Any]
"""The last are events for the harness: notes, problems and troubles."""
ACCEPTING = "connections of other nodes"
"""The place of a node's trouble when it has no file descriptor for a connection to it."""


def read_frame(frame: Mapping[str, Any], node: int) -> Heard:
    """Return what a frame of ``node`` says; raise `Malformed` if it says nothing."""
    return _read(lambda: _frame(frame, node))


def read_lifeline(document: Mapping[str, Any]) -> tuple[int, str]:
    """Return the node of a lifeline, and the token of the connection that it belongs to."""
    return _read(lambda: (_whole(document["lifeline"]), str(document["connection"])))


def read_busy(document: Mapping[str, Any]) -> int:
    """Return for how many microseconds a node has been late with its heartbeat."""
    return _read(lambda: _whole(document["busy_us"]))


def trouble_of(node: int, where: str, what: str) -> dict[str, Any]:
    """Return the event of a client's error, which the engine goes on from."""
    return {"event": "trouble", "node": node, "where": where, "what": what, "at_us": now_us()}


def problem_of(what: str, remedy: str) -> dict[str, Any]:
    """Return the event of what the coordinator cannot go on with."""
    return {"event": "problem", "node": -1, "what": what, "remedy": remedy}


def _frame(frame: Mapping[str, Any], node: int) -> Heard:
    (kind, value), *rest = frame.items()
    if rest:
        raise Malformed(f"a frame of {len(frame)} words")
    match kind:
        case "heartbeat":
            heartbeat = from_parts(value)
            if not isinstance(heartbeat, HeartbeatReceived) or heartbeat.node != node:
                raise Malformed(f"no heartbeat of node {node}")
            return heartbeat
        case "hosts":
            version, copies = value["hosts"]
            pairs = [[_whole(task), _whole(number)] for task, number in copies]
            return Where(run=str(value["run"]), hosts=[_whole(version), pairs])
        case "unreachable":
            return Unreachable(
                to=_whole(value["to"]),
                boot=_whole(value["boot"]),
                at=_address(value["at"]),
                why=str(value["why"]),
                since_us=_whole(value["since_us"]),
                at_us=_whole(value["at_us"]),
            )
        case "note":
            return {"event": "note", "note": str(value)}
        case "problem":
            known = {name: value[name] for name in ("what", "remedy", "usage") if name in value}
            return {"event": "problem", "remedy": "", **known, "what": str(value["what"])}
        case "trouble":
            where, what = str(value["where"]), str(value["what"])
            return {"event": "trouble", "where": where, "what": what[:2000]}
    raise Malformed(f"a frame about {kind!r}")


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except (CorruptData, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from error


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise Malformed(f"{value!r} where a number is due")
    return value


def _address(value: Any) -> Address:
    host, port = value
    return str(host), _whole(port)
