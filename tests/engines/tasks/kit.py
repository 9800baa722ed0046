"""The kit of the task engine's tests: a job, an event loop for a test, and substitutes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ParamSpec

import pyarrow as pa
from confluent_kafka import Message

from harness.cluster.base import ClusterSpec, Node, nodes_of
from harness.cluster.endpoints import RedisEndpoint
from harness.engines.base import Setup
from harness.engines.tasks.choices import scheme_of
from harness.engines.tasks.exchange import Begin, ReadError, Tail
from harness.engines.tasks.job import Job, spread, wiring_for
from harness.protocol.coordinator.registry import NodeInfo
from workloads.wordcount import RESULT, word_count

P = ParamSpec("P")
WORDS = word_count(text=[__file__], window_s=2, slide_s=1, depth=4)
"""Tasks: split 0-1, lower 2-3, count 4-5, collect 6."""
BATCH_US = 1_000_000
WIRING = wiring_for(WORDS, BATCH_US, {})
NODES = tuple(NodeInfo(name=f"n{n}", rack=f"r{n}", slots=20) for n in range(2))
REDIS = RedisEndpoint(host="127.0.0.1", port=1, password="nobody-listens")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own, for a minute at most."""

    @functools.wraps(test)
    def run(*arguments: P.args, **fixtures: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **fixtures), 60))

    return run


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the test's own limit is the deadline."""
    while not true():
        await asyncio.sleep(0)


def job(**more: Any) -> Job:
    """Return a pass of word count on two nodes, with other fields where they are given."""
    given = {
        "run": "pass", "workload": WORDS.reference, "start_us": 1_800_000_000_000_000,
        "batch_us": BATCH_US, "scheme": scheme_of(Setup(scheme="active"), WIRING, BATCH_US / 1e6),
        "nodes": NODES, "placement": spread(WIRING, NODES), "topic_of": {"lines": "in"},
        "out_topic": "out", "out_partitions": 1,
    }  # fmt: skip
    return Job(**{**given, **more})


def counts(second: int, **words: int) -> pa.Table:
    """Return results of word count for the window that begins at a second."""
    begins = pa.array([second * 1_000_000] * len(words), pa.timestamp("us"))
    return pa.table([begins, list(words), list(words.values())], schema=RESULT)


def machines(racks: int, nodes_per_rack: int) -> list[Node]:
    """Return a cluster's nodes; those of a rack are on one worker."""
    spec = ClusterSpec(racks=racks, nodes_per_worker=nodes_per_rack)
    return list(nodes_of(spec, lambda rack, worker: f"127.0.{rack}.1"))


class Sent:
    """Takes what a process would send: a sender, a link to the coordinator, a connection."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def send(self, *what: Any) -> bool:
        self.all.append(what[-1])
        return True

    send_body = send

    def flush(self) -> None:
        """Nothing has gathered."""

    def stop(self) -> None:
        """Do nothing: it reads nothing."""

    def problem(self, error: BaseException) -> None:
        raise error


def heard(
    settings: Mapping[str, Any],
    topic: str,
    begin: Begin,
    *,
    records: int = 1,
    prepare: Callable[[Sequence[Message]], Sequence[Any]] = lambda messages: messages,
) -> tuple[list[int], list[ReadError]]:
    """Return the numbers and errors that a reader has until it has so many records, or ends."""
    numbers: list[int] = []
    errors: list[ReadError] = []

    @in_a_loop
    async def follow() -> None:
        over = asyncio.Event()

        def deliver(messages: Sequence[Message]) -> None:
            numbers.extend(int(message.value() or b"") for message in messages)
            if len(numbers) >= records:
                over.set()

        def failed(error: ReadError) -> None:
            errors.append(error)
            if error.final:
                over.set()

        tail = Tail(settings, topic, 0, begin, deliver=deliver, failed=failed, prepare=prepare)
        await over.wait()
        tail.stop()

    follow()
    return numbers, errors
