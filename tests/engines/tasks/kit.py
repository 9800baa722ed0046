"""The kit of the task engine's tests: a job, an event loop for a test, and substitutes."""

from __future__ import annotations

import asyncio
import functools
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec

from harness.cluster.endpoints import RedisEndpoint, Tls
from harness.engines.base import Setup
from harness.engines.tasks.choices import scheme_of
from harness.engines.tasks.job import Job, spread, wiring_for
from harness.protocol.coordinator.registry import NodeInfo
from workloads.wordcount import word_count

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


class Sent:
    """Takes what a process would send: a sender, a link to the coordinator, a connection."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.enough = asyncio.Event()

    def send(self, *what: Any) -> bool:
        self.all.append(what[-1])
        self.enough.set()
        return True

    send_body = send

    def flush(self) -> None:
        """Nothing has gathered."""

    def stop(self) -> None:
        """Do nothing: it reads nothing."""

    def problem(self, error: BaseException) -> None:
        raise error


def certificates(directory: Path, name: str) -> Tls:
    """Make an authority, and a certificate from it."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    key, certificate = directory / f"{name}.key", directory / f"{name}.pem"
    command = ["openssl", "req", "-x509", *new, "-keyout", key, "-out", certificate, "-subj"]
    subprocess.run([*map(str, command), f"/CN={name}"], check=True, capture_output=True)
    text = certificate.read_text()
    return Tls(ca=text, certificate=text, key=key.read_text())
