"""What the author of an engine gives: the command of one node, and the sign that it is ready."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.cluster.base import Node, Prepared, Usage
from harness.cluster.endpoints import KafkaEndpoint
from harness.engines.base import Setup, Work

JOB_FILE = "job.json"
"""The file in a program's working directory that describes its pass."""
READY = "ready"
"""By default a line of this word in a program's output says that it is ready."""
READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of JSON in a program's output."""

    node: str
    document: Mapping[str, Any]


class Beside(ABC):
    """Processes of an engine that are on no node, for one pass: they run when it is made."""

    @abstractmethod
    def begun(self) -> None:
        """Return when the work is under way, after every node's program is ready."""

    @abstractmethod
    def raise_problems(self) -> None:
        """Raise `EnvironmentFailure` if one of them has ended by itself."""

    def prepare(self, part: str) -> Prepared:
        """Find the processes of a part (`EngineKind.parts`); `Prepared.apply` kills them.

        It is started again by `raise_problems`, or the job ends with it."""
        raise NotImplementedError(part)

    @abstractmethod
    def lines(self) -> Iterator[Line]:
        """Yield the lines of JSON in their output, also after their end."""

    @abstractmethod
    def usage(self) -> Mapping[str, Usage]:
        """Return their usage, by name; it is cumulative, also after their end."""

    @abstractmethod
    def stop(self) -> None:
        """End them, and all that they started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One program of one pass."""

    work: Work
    setup: Setup
    node: Node
    """The node that this program runs on."""
    nodes: Sequence[Node]
    """All nodes with a program of this engine."""
    kafka: KafkaEndpoint
    """Holds a password: it belongs into a file, not into a command or an environment."""
    beside: Beside | None = None
    """What the engine has on no node (`ProgramKind.beside`)."""

    def document(self) -> str:
        """Return the text of `JOB_FILE`: all that a program needs, without any of Faultline's code.

        ``kafka`` is a configuration of librdkafka's clients, ``group`` a name of this pass for
        consumer groups, ``in`` the topics by source, ``out`` the topic for the results."""
        workload = self.work.workload
        document: dict[str, Any] = {
            "kafka": self.kafka.confluent(on_executor=True),
            "group": self.work.name,
            "workload": workload.name,
            "in": {
                source.name: {
                    "topic": self.work.topic_of[source.name],
                    "partitions": source.partitions,
                }
                for source in workload.sources
            },
            "out": {"topic": self.work.out_topic, "partitions": self.work.out_partitions},
            "columns": workload.columns,
            "window_s": workload.window_s,
            "slide_s": workload.slide_s,
            "watermark_delay_s": workload.watermark_delay_s,
            "node": self.node.name,
            "rack": self.node.rack,
            "nodes": [node.name for node in self.nodes],
        }
        return json.dumps(document, indent=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of one program."""

    command: Sequence[str]
    """It holds no secret; its working directory has the files."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Name to text of further files for the working directory, readable by its owner alone."""
    ready: re.Pattern[str] = field(default=re.compile(READY))
    """The whole of a line of its output that says: it works, and has read what is in the topics."""
    ready_within_s: float = READY_WITHIN_S
    stop_within_s: float = 10.0
    """Time from SIGTERM to SIGKILL."""
