"""Calls of an agent over two streams of bytes: frames, their numbers, and both ends.

A frame is four bytes of length and a msgpack value. A request is its number, a method of `Agent`
and its arguments by name; a reply is the number, None or an error, and the result. Replies come in
any order. Nothing here reads or writes: `Caller.send` and `Answerer.send` do."""

from __future__ import annotations

import inspect
import itertools
import struct
import threading
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from functools import cache
from typing import Any

import msgspec

from harness.cluster.agent.agent import Agent
from harness.errors import EnvironmentFailure, FaultlineError, UsageError

METHODS = tuple(name for name in dir(Agent) if not name.startswith("_"))
"""The methods that can be called from another machine: all public ones."""
LONGEST_BYTES = 64 << 20
ANSWER_LIMIT_S = 60.0
"""Longest wait for an answer, beyond what the call itself waits for."""

_LENGTH = struct.Struct(">I")
_ERRORS = {kind.__name__: kind for kind in (UsageError, EnvironmentFailure)}


class Failure(msgspec.Struct, frozen=True):
    """An error of a method, on its way to the caller."""

    kind: str
    what: str
    remedy: str


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A call."""

    number: int
    method: str
    arguments: dict[str, msgspec.Raw]


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """Its answer."""

    number: int
    failure: Failure | None
    result: msgspec.Raw


def frame(value: Request | Reply) -> bytes:
    """Return the bytes of one frame."""
    body = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """The frames in a stream of bytes that comes in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete now. Raises `ValueError` for an impossible length."""
        self._rest += data
        while len(self._rest) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._rest)
            if size > LONGEST_BYTES:
                raise ValueError(f"a frame of {size} bytes")
            if len(self._rest) < _LENGTH.size + size:
                return
            yield self._rest[_LENGTH.size : _LENGTH.size + size]
            self._rest = self._rest[_LENGTH.size + size :]


class Answerer:
    """The agent's end."""

    def __init__(self, agent: Agent, send: Callable[[bytes], None]) -> None:
        self._agent = agent
        self._send = send
        self._lock = threading.Lock()

    def answer(self, request: bytes) -> None:
        """Carry out one request and send its reply; several may be under way in threads."""
        call = msgspec.msgpack.decode(request, type=Request)
        try:
            value = self._carry_out(call)
            reply = Reply(call.number, None, msgspec.Raw(msgspec.msgpack.encode(value)))
        except FaultlineError as error:
            failure = Failure(type(error).__name__, error.what, error.remedy)
            reply = Reply(call.number, failure, _NOTHING)
        except Exception as error:
            failure = Failure(
                "EnvironmentFailure",
                f"{call.method}: {type(error).__name__}: {error}",
                "see the agent's log in the run directory (logs/agent of the machine)",
            )
            reply = Reply(call.number, failure, _NOTHING)
        with self._lock:
            self._send(frame(reply))

    def _carry_out(self, call: Request) -> Any:
        if call.method not in METHODS:
            raise UsageError(f"an agent has no method {call.method!r}", remedy="send this code")
        hints = _types_of(call.method)
        arguments = {
            name: msgspec.msgpack.decode(value, type=hints[name])
            for name, value in call.arguments.items()
        }
        return getattr(self._agent, call.method)(**arguments)


@cache
def _types_of(method: str) -> Mapping[str, Any]:
    return typing.get_type_hints(getattr(Agent, method))


class Caller:
    """The harness's end. Safe to use from several threads."""

    def __init__(self, machine: str, send: Callable[[bytes], None]) -> None:
        """``machine``: its name in messages."""
        self.machine = machine
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[msgspec.Raw]] = {}
        self._frames = Frames()
        self.lost: str | None = None
        """Why no more answers come; None while they do."""
        self._lock = threading.Lock()

    def call(self, method: str, arguments: Mapping[str, Any], *, within_s: float) -> msgspec.Raw:
        """Send a request and wait for its result.

        Raises the method's error, and `EnvironmentFailure` when the connection is lost or the
        answer does not come in time."""
        answer: Future[msgspec.Raw] = Future()
        number = next(self._numbers)
        raw = {
            name: msgspec.Raw(msgspec.msgpack.encode(value)) for name, value in arguments.items()
        }
        with self._lock:
            if self.lost is not None:
                raise self._failure(self.lost)
            self._waiting[number] = answer
        try:
            self._send(frame(Request(number, method, raw)))
        except OSError as error:
            self.lose(f"nothing can be sent to it ({error})")
        try:
            return answer.result(within_s)
        except NoAnswer:
            raise self._failure(f"it did not answer `{method}` within {within_s:g} s") from None
        finally:
            self._waiting.pop(number, None)

    def feed(self, data: bytes) -> None:
        """Take bytes that came from the agent."""
        try:
            for one in self._frames.take(data):
                reply = msgspec.msgpack.decode(one, type=Reply)
                answer = self._waiting.get(reply.number)
                if answer is None:  # its caller has given up
                    continue
                if reply.failure is None:
                    answer.set_result(reply.result)
                else:
                    kind = _ERRORS.get(reply.failure.kind, EnvironmentFailure)
                    what = f"{self.machine}: {reply.failure.what}"
                    answer.set_exception(kind(what, remedy=reply.failure.remedy))
        except (ValueError, msgspec.MsgspecError) as error:
            self.lose(f"it sent what is no answer ({error})")

    def lose(self, why: str) -> None:
        """Fail every call that waits, and all later ones."""
        with self._lock:
            self.lost = self.lost or why
            waiting, self._waiting = list(self._waiting.values()), {}
        for answer in waiting:
            if not answer.done():
                answer.set_exception(self._failure(why))

    def _failure(self, why: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"the agent on {self.machine} cannot be used: {why}",
            remedy="see whether the machine is up and its network whole, then run the command "
            "again; what it had started there ends by itself",
        )


class FarAgent(Agent):
    """An agent on another machine: every public method of `Agent` is carried out there."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


def _far(name: str) -> Callable[..., Any]:
    near = getattr(Agent, name)
    signature, kind = inspect.signature(near), typing.get_type_hints(near).get("return")

    def method(self: FarAgent, *given: Any, **named: Any) -> Any:
        arguments = dict(signature.bind(self, *given, **named).arguments)
        del arguments["self"]
        result = self.caller.call(name, arguments, within_s=_limit_s(arguments))
        return msgspec.msgpack.decode(result, type=kind)

    return method


def _limit_s(arguments: Mapping[str, Any]) -> float:
    due: float | None = arguments.get("due_unix_s")
    within_s: float = arguments.get("within_s", 0.0)
    return ANSWER_LIMIT_S + within_s + (0.0 if due is None else max(0.0, due - time.time()))


for _name in METHODS:
    setattr(FarAgent, _name, _far(_name))

_NOTHING = msgspec.Raw(msgspec.msgpack.encode(None))
