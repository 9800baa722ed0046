"""The common part of all backends: how a cluster is started, watched over, configured and ended.

A cluster is on record before any part of it exists. A keeper outlives the harness by a moment and
removes it, and the next start removes what both left. A backend adds how its servers are found,
brought up, examined and broken."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.ownership import NOBODY, ClusterRecord, ClusterRecords, Remove
from harness.cluster.processes import RUN_VARIABLE, Machine, identify
from harness.cluster.run_directory import (
    check_room,
    driver_configuration,
    end_processes,
    make_layout,
    make_place,
    remove_secrets,
    write_credentials,
    write_journal,
)
from harness.cluster.spark import (
    FIXED,
    REPOSITORY,
    SparkAccess,
    one_rack,
    rack_resource,
    server_environment,
)
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify

MINIMUM_FREE_BYTES = 1 << 30
"""Free disk space that a start needs; a run that fills the disk measures nothing."""


class OwnedCluster(Cluster):
    """A cluster that belongs to one harness."""

    programs: Programs
    """Set by `find_parts`."""

    def __init__(
        self,
        spec: ClusterSpec,
        run_directory: Path | None = None,
        *,
        remove: Remove,
        keep: bool = False,
    ) -> None:
        """Start nothing yet.

        ``run_directory`` must be new or empty; by default it is made under the user's state
        directory. ``remove`` is `backends.remove_made`, which knows all backends, because a start
        also removes the remains of dead clusters of other backends. ``keep`` leaves the directory
        in place after `stop`, without its secrets."""
        self.spec = spec
        self._remove = remove
        self.run = secrets.token_hex(8)
        self._records = ClusterRecords()
        chosen = run_directory or self._records.root / self.run
        self.run_directory = chosen.absolute()
        self._keep = keep
        self._record: ClusterRecord | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def find_parts(self, report: Notify) -> None:
        """Find the parts of the cluster, without making anything that must be removed later."""

    @abstractmethod
    def bring_up(self, report: Notify) -> None:
        """Start every server, wait until all of them answer, and write the credential files."""

    @abstractmethod
    def ended(self) -> None:
        """Release this process's threads and children of a cluster that has ended."""

    @abstractmethod
    def spark_access(self) -> SparkAccess:
        """Return the way in for drivers."""

    def resources(self) -> Mapping[str, Any]:
        """Return `ClusterRecord.resources`."""
        return {}

    def spark_conf(self, *, racks: Sequence[str] | None = None) -> dict[str, str]:
        self.demand_started()
        access, spec, rack = self.spark_access(), self.spec, one_rack(self.spec, racks)
        conf = {
            **FIXED,
            "spark.master": access.master_url,
            "spark.driver.host": access.driver_host,
            "spark.driver.bindAddress": access.driver_host,
            "spark.jars": ",".join(str(jar) for jar in self.programs.connector_jars),
            "spark.executor.cores": str(spec.cores_per_worker),
            "spark.executor.memory": f"{spec.memory_mb_per_worker}m",
            "spark.executor.extraJavaOptions": access.java_options,
            "spark.driver.extraJavaOptions": access.java_options,
            "spark.pyspark.python": access.executor_python,
            "spark.pyspark.driver.python": sys.executable,
            "spark.sql.warehouse.dir": str(self.run_directory / "warehouse"),
        }
        if rack is not None:
            conf[f"spark.executor.resource.{rack_resource(rack)}.amount"] = "1"
        return conf

    def driver_environment(self) -> dict[str, str]:
        self.demand_started()
        access = self.spark_access()
        return {
            **server_environment(self.programs.java_home, self.programs.spark_home),
            "SPARK_CONF_DIR": str(driver_configuration(self.run_directory)),
            "SPARK_LOCAL_DIRS": str(self.run_directory / "spark-local"),
            "SPARK_LOCAL_IP": access.driver_host,
            # PySpark sends this to the executors, whatever spark.pyspark.python is.
            "PYSPARK_PYTHON": access.executor_python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            RUN_VARIABLE: self.run,
        }

    def write_credentials(self) -> None:
        """Write the files with which people and programs connect."""
        write_credentials(
            self.run_directory,
            kafka=self.kafka,
            redis=self.redis,
            settings=self.spark_conf(),
            secret=self.spark_access().secret,
        )

    def start(self, report: Notify) -> None:
        if self._record is not None:
            raise UsageError("this cluster was started before", remedy="make a new cluster")
        self._records.sweep(report, self._remove)
        self.find_parts(report)
        self._make_directory()
        self._record = ClusterRecord(
            run=self.run,
            directory=self.run_directory,
            machine=Machine.here(),
            owner=identify(os.getpid()),
            keep=self._keep,
            started_unix_s=time.time(),
            backend=self.backend,
            resources=self.resources(),
        )
        self._records.add(self._record)
        try:
            self._keep_watch()
            self.bring_up(report)
        except BaseException:
            self._give_up(report)
            raise

    def stop(self) -> None:
        if self._record is None:
            return
        self._end_keeper()
        self._records.clean_up(self._record, self._remove)
        self.ended()
        self._record = None

    def release(self) -> None:
        self.demand_started()
        assert self._record is not None
        self._record = replace(self._record, owner=None)
        self._records.add(self._record)
        self._end_keeper()

    def scratch(self, name: str) -> Path:
        self.demand_started()
        return make_place(self.run_directory / "scratch", name)

    def checkpoint_location(self, name: str) -> str:
        self.demand_started()
        return make_place(self.run_directory / "checkpoints", name).as_uri()

    def tidy(self) -> None:
        self.demand_started()
        for place in ("checkpoints", "scratch"):
            for path in (self.run_directory / place).glob("*"):
                shutil.rmtree(path, ignore_errors=True)
        check_room(self.run_directory, MINIMUM_FREE_BYTES)

    def demand_started(self) -> None:
        """Raise `UsageError` if the cluster is not running."""
        if self._record is None:
            raise UsageError("this cluster is not running", remedy="call start() first")

    def _make_directory(self) -> None:
        directory = self.run_directory
        try:
            if directory.exists() and any(directory.iterdir()):
                raise UsageError(
                    f"the run directory {directory} is not empty",
                    remedy="give a new or an empty directory",
                )
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_room(directory.parent, MINIMUM_FREE_BYTES)
            directory.mkdir(mode=0o700, exist_ok=True)
            directory.chmod(0o700)
            make_layout(directory)
        except OSError as error:
            raise EnvironmentFailure(
                f"the run directory {directory} cannot be made: {error.strerror}",
                remedy="give a directory that you can write to, or set XDG_STATE_HOME to one",
            ) from error

    def _keep_watch(self) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "harness.cluster.keeper", self.run],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=REPOSITORY,
            start_new_session=True,
        )
        if (identity := identify(self._keeper.pid)) is not None:
            write_journal(self.run_directory, "keeper", identity)

    def _give_up(self, report: Notify) -> None:
        """End a failed start: no process is left, the logs stay until the next start."""
        assert self._record is not None
        self._end_keeper()
        end_processes(self.run, self.run_directory)
        try:
            self._remove(self._record)
        except EnvironmentFailure as failure:  # why it failed says more; the next start tries again
            report(f"some of it is still there: {failure.what}")
        self.ended()
        remove_secrets(self.run_directory)
        self._records.add(replace(self._record, owner=NOBODY))
        self._record = None

    def _end_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The places of all programs."""

    java_home: Path
    broker_jars: Path
    """A directory of jars: the Kafka broker and its dependencies."""
    connector_jars: tuple[Path, ...]
    """Spark's Kafka connector and its dependencies, without PySpark's own jars."""
    redis_server: Path
    spark_home: Path

    @property
    def java(self) -> Path:
        """The Java launcher."""
        return self.java_home / "bin" / "java"


def find_programs(report: Notify) -> Programs:
    """Find Java, Redis and PySpark; fetch the pinned jars on first use.

    Raises `harness.errors.EnvironmentFailure` with the missing program and how to get it."""
    import pyspark

    from harness.environment.jars import ensure_jars
    from harness.environment.java import find_java
    from harness.environment.redis_server import find_redis

    java = find_java(report)
    redis_server = find_redis(report)
    jars = ensure_jars(report)
    return Programs(
        java_home=java.home,
        broker_jars=jars.broker,
        connector_jars=tuple(jars.connector),
        redis_server=redis_server,
        spark_home=Path(pyspark.__file__).parent,
    )
