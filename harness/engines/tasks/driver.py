"""The process of the Spark driver: ``python -m harness.engines.tasks.driver``.

It places nodes and nothing else: one Spark job per node, whose only task is `run_node`, on the
host of the node's worker. ``spark.task.maxFailures`` is 1, so a killed process ends its job at
once; the node is then started again as a new job. Without a restart delay that happens at once.
With one, the process is started early enough to be ready when the delay is over, and the
coordinator does not accept it before, because a process that starts takes processor time from
those that restore. A whole executor that is lost does not count as a failure of its tasks: Spark
starts them again by itself when a slot is free. They get a new boot number from Redis, too."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.child import Emit, orders, speaker

if TYPE_CHECKING:
    from pyspark import SparkContext

WORKER_VARIABLE = "FAULTLINE_WORKER"
RESUBMIT_S = 0.05
"""Before a node whose task did not even begin is placed again."""
GIVES_WAY = 10
"""Its niceness, and its virtual machine's: Spark's words about a dead task, and the placing of the
next one, must not take the processor from the copies that take over."""
STARTING_S = 1.5
"""Longest start of a process on an otherwise idle machine, in seconds."""
_COUNT_S, _COUNT_LATER_S = 0.1, 2.0
"""Between two looks at the executors: until nodes are placed on them, and from then on, when
nobody waits for the answer and each look costs the virtual machine a millisecond."""


def place(context: SparkContext, element: Any, host: str) -> Any:
    """Return an RDD of one element whose task prefers ``host``.

    PySpark has no method for that; Spark's own, `SparkContext.makeRDD`, is public in Scala."""
    from pyspark.rdd import RDD
    from pyspark.serializers import CPickleSerializer

    jvm: Any = context._jvm
    scala = jvm.scala.jdk.javaapi.CollectionConverters
    hosts = jvm.java.util.ArrayList()
    hosts.add(host)
    pairs = jvm.java.util.ArrayList()
    pairs.add(jvm.scala.Tuple2(bytearray(pickle.dumps(element)), scala.asScala(hosts).toList()))
    tag = getattr(jvm.scala.reflect, "ClassTag$").__getattr__("MODULE$").Any()
    made = context._jsc.sc().makeRDD(scala.asScala(pairs).toList(), tag)
    return RDD(made.toJavaRDD(), context, CPickleSerializer())


def host_node(elements: Any) -> list[str]:
    """Run as the task of a node.

    Spark's preference for a host is only a preference: on another host the task ends."""
    from harness.engines.tasks.node import run_node

    for arguments in elements:
        if os.environ.get(WORKER_VARIABLE, arguments["worker"]) != arguments["worker"]:
            time.sleep(0.2)  # Spark offers the same slot again at once
            raise RuntimeError(f"placed on {os.environ[WORKER_VARIABLE]}")
        run_node(arguments)
    return []


def placed_after_s(away_s: Sequence[float], node: int) -> float:
    """Return the seconds from its end to its new placement, so that it is there in time."""
    return max(0.0, away_s[node] - STARTING_S) if node < len(away_s) else 0.0


class Driver:
    """Keeps every node running until `stop`."""

    def __init__(self, configuration: Mapping[str, Any], emit: Emit) -> None:
        from pyspark import SparkConf, SparkContext

        self._emit = emit
        conf = SparkConf().setAll(list(configuration["conf"].items()))
        self._context = SparkContext(conf=conf)
        self._context.setLogLevel("ERROR")
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.away_s: Sequence[float] = ()
        """Node to its restart delay in the pass that is running; empty: none has one."""
        self._count_s = _COUNT_S
        emit({"event": "session", "application": self._context.applicationId})
        threading.Thread(target=self._count_executors, daemon=True).start()

    def run_nodes(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Start every node, and again whenever one ends. Each entry: ``host``, ``arguments``."""
        from pyspark import InheritableThread

        self._count_s = _COUNT_LATER_S
        for node in nodes:
            thread = InheritableThread(target=self._keep, args=(node,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Wait for the nodes, which have the order to leave, then end the application."""
        self._stopping.set()
        deadline = time.monotonic() + 3
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._context.cancelAllJobs()
        self._context.stop()

    def _keep(self, node: Mapping[str, Any]) -> None:
        number = node["arguments"]["node"]
        while not self._stopping.is_set():
            self._context.setJobGroup(f"node {number}", f"node {number}", True)
            began = time.monotonic()
            error = self._run(node)
            if self._stopping.is_set():
                return
            self._emit(
                {
                    "event": "ended",
                    "node": number,
                    "error": error,
                    "after_s": time.monotonic() - began,
                    "at_unix_s": time.time(),
                }
            )
            ended = time.monotonic()
            while not self._stopping.wait(RESUBMIT_S):
                if time.monotonic() - ended >= placed_after_s(self.away_s, number):
                    break

    def _run(self, node: Mapping[str, Any]) -> str | None:
        try:
            place(self._context, node["arguments"], node["host"]).mapPartitions(host_node).collect()
        except Exception as error:  # py4j's, Spark's or Python's: the node has ended
            return str(error)[:2000]
        return None

    def _count_executors(self) -> None:
        known = -1
        while not self._stopping.wait(self._count_s):
            try:
                count = self._context._jsc.sc().getExecutorMemoryStatus().size() - 1
            except Exception:  # the context is being stopped
                return
            if count != known:
                known = count
                self._emit({"event": "executors", "count": count, "at_unix_s": time.time()})


def main() -> None:
    emit = speaker()
    driver: Driver | None = None
    try:
        lines = orders()
        first = next(lines)
        if first.pop("gives_way"):
            os.nice(GIVES_WAY)
        driver = Driver(first, emit)
        for line in lines:
            if "away_s" in line:
                driver.away_s = line["away_s"]
            else:
                driver.run_nodes(line["nodes"])
    except BaseException as error:
        emit({"event": "died", "error": f"{type(error).__name__}: {error}"[:4000]})
        raise
    finally:
        if driver is not None:
            driver.stop()


if __name__ == "__main__":
    main()
