"""Calls on the executors of a Spark cluster, one Spark job each: computed runs, shares of seeds.

`SparkPool` is the harness's side, for runs in place of the processes of
`harness.running.computed`; ``python -m harness.running.on_spark`` is the driver. A call gets the
same seeds and code everywhere, so its outcome is the same. Another executor repeats the call of a
lost one. Experiments reach the executors as an archive, because images and foreign clusters have
only the code that engines need."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
import zipfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from harness.child import Child, orders, speaker
from harness.cluster.spark import spread_settings
from harness.running.computed import RunResult, Task, perform_remotely

if TYPE_CHECKING:
    from harness.cluster.base import Cluster

JOBS_PER_SLOT = 2
"""Number of jobs per slot, so that an executor finds its next run waiting."""
LONGEST_RUN_S = 24 * 3600.0
"""Longest wait in which no run finishes. A computed run has no limit of its own."""
ENDS_WITHIN_S = 30.0


class SparkPool:
    """Calls on a Spark cluster, which starts with the first one and stops with the block."""

    def __init__(self, cluster: Callable[[], AbstractContextManager[Cluster]]) -> None:
        """Create a pool; ``cluster`` opens a cluster that is already started."""
        self._open = cluster
        self._closing = ExitStack()
        self._driver: _Driver | None = None

    def __enter__(self) -> SparkPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | object) -> None:
        """Wait for the requested runs; after an interruption end them."""
        with self._closing:
            if self._driver is not None:
                self._driver.stop(within_s=ENDS_WITHIN_S if kind is None else 0)

    def submit(self, task: Task) -> Future[RunResult]:
        """Request one run. The future raises `EnvironmentFailure` if the driver is lost."""
        return self.call(perform_remotely, task)

    def call(self, function: Callable[[Any], Any], argument: object) -> Future[Any]:
        """Request the result of a function of a module, as `submit` does.

        The result of a call that fails on every executor is a `RunResult` without an outcome."""
        if self._driver is None:
            self._driver = _Driver(self._closing.enter_context(self._open()))
        return self._driver.submit(function, argument)


class _Driver:
    """The Spark application with the calls requested from it."""

    def __init__(self, cluster: Cluster) -> None:
        self._place = cluster.scratch("spread")
        self._asked: list[Future[Any]] = []
        archive = write_archive(self._place / "experiments.zip")
        self._child = Child(
            "harness.running.on_spark",
            name="the driver of spread runs",
            log=self._place / "driver.log",
            remedy="read its log; the same command without --spread runs on this machine",
            environment=cluster.driver_environment(),
        )
        conf, jobs = spread_settings(cluster), cluster.spec.task_slots * JOBS_PER_SLOT
        self._child.send({"conf": conf, "archive": str(archive), "jobs": jobs})
        self._listener = threading.Thread(target=self._listen, name="spread runs", daemon=True)
        self._listener.start()

    def submit(self, function: Callable[[Any], Any], argument: object) -> Future[Any]:
        number, future = len(self._asked), Future[Any]()
        self._asked.append(future)
        path = self._place / f"task-{number}"
        path.write_bytes(pickle.dumps((function, argument)))
        self._child.send({"run": number, "task": str(path)})
        return future

    def stop(self, *, within_s: float) -> None:
        self._child.stop(within_s=within_s)
        self._listener.join()

    def _listen(self) -> None:
        try:
            for event in self._child.each("the outcome of a run", "made", within_s=LONGEST_RUN_S):
                path = Path(event["path"])
                # This user's own driver wrote it, below the run directory, which is 0700.
                self._asked[event["run"]].set_result(pickle.loads(path.read_bytes()))
                path.unlink()
        except Exception as failure:  # the end of the driver, mostly: who still waits must know
            for future in self._asked:
                if not future.done():
                    future.set_exception(failure)


def write_archive(path: Path) -> Path:
    """Write a zip of the experiments' modules, which Spark hands to executors."""
    import experiments

    (package,) = map(Path, experiments.__path__)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, str(file.relative_to(package.parent)))
    return path


def main() -> None:
    """Run the driver: one job an order, until the harness closes its end."""
    emit = speaker()
    told = orders()
    begin = next(told, None)
    if begin is None:
        return
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("faultline-spread").config(map=begin["conf"])
    context = builder.getOrCreate().sparkContext
    context.addPyFile(begin["archive"])

    def perform(order: dict[str, Any]) -> None:
        path = Path(order["task"])
        function, argument = pickle.loads(path.read_bytes())
        began_unix_s, began_s = time.time(), time.monotonic()
        try:
            (made,) = context.parallelize([argument], 1).map(function).collect()
        except Exception:  # lost executors, four times; or one that cannot load the code
            made = RunResult(
                outcome=None,
                why=traceback.format_exc(),
                started_unix_s=began_unix_s,
                seconds=time.monotonic() - began_s,
            )
        path.write_bytes(pickle.dumps(made))
        emit({"event": "made", "run": order["run"], "path": str(path)})

    with ThreadPoolExecutor(begin["jobs"]) as pool:
        for order in told:
            pool.submit(perform, order)
        pool.shutdown(wait=False, cancel_futures=True)
        context.cancelAllJobs()
    context.stop()


if __name__ == "__main__":
    main()
