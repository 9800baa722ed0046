"""The external backend: Kafka, Redis and Spark that exist already, described by a file.

It starts and stops no server. The names of everything that a run makes there begin with
``faultline-<run>-``, and all of it is removed after the run, by this harness, by its keeper, or by
the next start. Checks before the first run: topics and keys can be written, every node is up and
its clock right, and executors run the same Python, the same Spark and the same code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark

from harness.cluster.base import (
    CLOCK_LIMIT_S,
    Action,
    ClusterSpec,
    Node,
    Usage,
    Victim,
    demand_near,
)
from harness.cluster.clocks import Sample
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.external.nodes import ExternalNodes
from harness.cluster.external.probe import ARCHIVE, RECORDS, of_sources, write_archive
from harness.cluster.external.servers import (
    check_kafka,
    check_redis,
    reach_kafka,
    remove_checkpoints,
    remove_keys,
    remove_topics,
)
from harness.cluster.external.settings import ExternalSettings, read_settings
from harness.cluster.owned import OwnedCluster, find_programs
from harness.cluster.ownership import ClusterRecord, Remove
from harness.cluster.processes import HostProcess
from harness.cluster.run_directory import make_place
from harness.cluster.spark import REPOSITORY, SparkAccess, one_rack
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify

PROBE_LIMIT_S = 180.0
_HEALTH_EVERY_S = 5.0
_ILL_AFTER_S = 30.0
"""Servers on a busy machine are slow, not dead."""


class ExternalCluster(OwnedCluster):
    """Foreign servers, used under a prefix of our own."""

    def __init__(
        self, settings: ExternalSettings, spec: ClusterSpec, *, remove: Remove, keep: bool = False
    ) -> None:
        racks = Counter(node.rack for node in settings.nodes)
        spec.demand_within(list(racks.values()), settings.path)
        super().__init__(spec, remove=remove, keep=keep)
        self.backend = settings.name
        prefix = prefix_of(self.run)
        self._settings = settings
        self._kafka = replace(settings.kafka, topic_prefix=prefix)
        self._redis = replace(settings.redis, key_prefix=prefix)
        self._nodes = ExternalNodes(settings, spec.nodes_per_worker)
        self._made: list[str] = []
        self._healthy_at_s = 0.0

    def find_parts(self, report: Notify) -> None:
        self.programs = find_programs(report)
        report("looking whether Kafka answers")
        reach_kafka(self._kafka)  # before a record of topics, which only Kafka can remove

    def resources(self) -> Mapping[str, Any]:
        return {"settings": str(self._settings.path.absolute())}

    def bring_up(self, report: Notify) -> None:
        report("looking whether Kafka and Redis can be written")
        check_kafka(self._kafka)
        check_redis(self._redis)
        report("looking whether every node is up")
        self._nodes.demand_up()
        self._nodes.check_clocks()
        if self._settings.spark.code == "archive":
            write_archive(self.run_directory, REPOSITORY)
        self.write_credentials()
        report("looking which Spark, Python and code the executors run")
        self._probe()

    def ended(self) -> None:
        """Release nothing: this process holds no part of it."""

    @property
    def kafka(self) -> KafkaEndpoint:
        return self._kafka

    @property
    def redis(self) -> RedisEndpoint:
        return self._redis

    def spark_conf(self, *, racks: Sequence[str] | None = None) -> dict[str, str]:
        spark = self._settings.spark
        rack = one_rack(self.spec, racks)
        conf = super().spark_conf()
        if spark.secret is None:
            del conf["spark.authenticate"]
        if spark.code == "archive":
            archive = str(self.run_directory / ARCHIVE)
            # Spark adds the archive to the path of tasks that run already; a Python daemon of ours
            # needs it when it starts, and finds it where executors keep files: where they stand.
            conf |= {
                "spark.submit.pyFiles": archive,
                "spark.files": archive,
                "spark.executorEnv.PYTHONPATH": ARCHIVE,
            }
        return {**conf, **spark.conf, **self._on_rack(rack)}

    def spark_access(self) -> SparkAccess:
        spark = self._settings.spark
        return SparkAccess(
            master_url=spark.master,
            driver_host=spark.driver_host,
            executor_python=spark.python,
            secret=spark.secret,
        )

    def health(self) -> None:
        """Connect to Kafka and Redis, at most once in `_HEALTH_EVERY_S`: they are far away."""
        import redis
        from confluent_kafka import KafkaException

        self.demand_started()
        if time.monotonic() - self._healthy_at_s < _HEALTH_EVERY_S:
            return
        try:
            self._kafka.admin().list_topics(timeout=_ILL_AFTER_S)
            with self._redis.client(socket_timeout=_ILL_AFTER_S) as client:
                client.ping()
        except (KafkaException, redis.RedisError) as error:
            raise EnvironmentFailure(
                f"the cluster of {self._settings.path} is ill: {error}",
                remedy="see what became of its Kafka and its Redis",
            ) from error
        self._healthy_at_s = time.monotonic()

    def nodes(self) -> Sequence[Node]:
        return self._nodes.nodes

    def alive(self) -> Mapping[str, bool]:
        self.demand_started()
        return self._nodes.alive()

    def capabilities(self) -> frozenset[Action]:
        return self._settings.actions

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        self.demand_started()
        if action not in self.capabilities():
            raise UsageError(
                f"the cluster of {self._settings.path} cannot {action} {target}",
                remedy=f"add a command `{action}` to it, or use "
                + ", ".join(sorted(self.capabilities())),
            )
        nodes = self.resolve(target)
        return self._nodes.apply(action, nodes, rack=self.is_rack(target))

    def restore(self, report: Notify) -> None:
        self.demand_started()
        self.health()
        self._nodes.restore(report)

    def usage(self) -> Mapping[str, Usage]:
        self.demand_started()
        return self._nodes.usage()

    def register_host(self, node: str, host: HostProcess) -> None:
        self.demand_started()
        (found,) = (each for each in self.resolve(node) if each.name == node)
        self._nodes.register(found, host)

    def checkpoint_location(self, name: str) -> str:
        self.demand_started()
        # The same names as everywhere, whatever the storage would allow.
        make_place(self.run_directory / "checkpoints", name)
        self._made.append(name)
        return f"{checkpoints_of(self._settings, self.run)}/{name}"

    def tidy(self) -> None:
        super().tidy()
        if self._made:
            uri = checkpoints_of(self._settings, self.run)
            remove_checkpoints(self._settings, uri)
            self._made.clear()

    @property
    def clock_limit_s(self) -> float:
        return CLOCK_LIMIT_S

    def clocks(self) -> Mapping[str, Sample | None]:
        return self._nodes.clocks()

    def _on_rack(self, rack: str | None) -> Mapping[str, str]:
        if rack is None:
            return {}
        if rack not in self._settings.spark.rack_conf:
            raise UsageError(
                f"an application cannot be kept on rack {rack} of the cluster of "
                f"{self._settings.path}",
                remedy="give spark.rack_conf: per rack the settings that keep an application there "
                "(a worker resource of the rack, or a node selector)",
            )
        return self._settings.spark.rack_conf[rack]

    def _probe(self) -> None:
        log, uri = self.run_directory / "logs" / "probe.log", self.checkpoint_location("probe")
        with log.open("wb") as errors:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "harness.cluster.external.probe"],
                    input=json.dumps({"conf": self.spark_conf(), "uri": uri}).encode() + b"\n",
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **self.driver_environment()},
                    cwd=REPOSITORY,
                    timeout=PROBE_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise probe_failure("got no executors in time", log.read_text()) from error
        if done.returncode != 0:
            raise probe_failure("failed", log.read_text(errors="replace"))
        answer = json.loads(done.stdout)
        check_executors(answer["executors"], of_sources(REPOSITORY), self._settings.spark.code)
        check_clocks(answer)
        check_storage(answer, uri)
        self.tidy()


def probe_failure(how: str, log: str) -> EnvironmentFailure:
    """Return the error for a failed application's log."""
    last = "\n".join(f"    {line}" for line in log.strip().splitlines()[-8:])
    if "PYTHON_VERSION_MISMATCH" in log:
        remedy = f"executors need Python {sys.version_info[0]}.{sys.version_info[1]}: spark.python"
    elif "InvalidClassException" in log or "incompatible" in log:
        remedy = f"the cluster runs another Spark: it must be {pyspark.__version__}"
    elif "SaslMessage" in log or "authenticat" in log:
        remedy = "the master asks for a secret that was not given (or the other way): spark.secret"
    elif "Cannot run program" in log:
        remedy = "spark.python names no program on the executors"
    elif "has not accepted any resources" in log:
        remedy = "no worker is free or large enough, or none can reach spark.driver_host"
    else:
        remedy = "see whether spark.master and spark.driver_host are right from both sides"
    return EnvironmentFailure(f"a first application {how}; its last words:\n{last}", remedy=remedy)


def check_executors(found: Sequence[Mapping[str, Any]], code: str, way: str) -> None:
    """Raise `EnvironmentFailure` for an executor with other versions or code than the driver."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for executor in found:
        where = f"the executor on {executor['host']}"
        if not str(executor["python"]).startswith(f"{own}."):
            raise EnvironmentFailure(
                f"{where} runs Python {executor['python']}, the driver {own}",
                remedy="both need the same minor version: correct spark.python",
            )
        if executor["pyspark"] != pyspark.__version__:
            raise EnvironmentFailure(
                f"{where} has PySpark {executor['pyspark']}, the driver {pyspark.__version__}",
                remedy="install the version that requirements.lock pins there",
            )
        if executor["code"] != code:
            lacks = executor["code"] is None
            raise EnvironmentFailure(
                f"{where} {'lacks this code' if lacks else 'has other code than this checkout'}",
                remedy="use `code: archive`" if way == "image" else "see the executor's log",
            )


def check_clocks(answer: Mapping[str, Any]) -> None:
    """Raise `EnvironmentFailure` for an executor's clock that is certainly off.

    It was read at an unknown instant of a job, so half of the job's duration is the bound."""
    bound_s = (answer["after"] - answer["before"]) / 2
    middle = answer["before"] + bound_s
    for executor in answer["executors"]:
        sample = Sample(offset_s=executor["unix_s"] - middle, bound_s=bound_s)
        demand_near(f"of the executor on {executor['host']}", sample)


def check_storage(answer: Mapping[str, Any], uri: str) -> None:
    """Raise `EnvironmentFailure` unless every executor can read what the others have written."""
    if answer["stored"] != RECORDS:
        found = answer.get("error") or f"{answer['stored']} of {RECORDS} records came back"
        raise EnvironmentFailure(
            f"executors cannot share checkpoints at {uri}: {found}",
            remedy="give `checkpoints` a place that the driver and every executor can write to: a "
            "directory that all of them mount (file://), hdfs://, or s3a:// with its jars and keys "
            "in spark.conf",
        )


def prefix_of(run: str) -> str:
    """Return the prefix of every topic and key of a run."""
    return f"faultline-{run}-"


def checkpoints_of(settings: ExternalSettings, run: str) -> str:
    """Return the URI of one cluster's checkpoints, below the settings' own."""
    return f"{settings.checkpoints}/faultline-{run}"


def servers(record: ClusterRecord) -> dict[str, bool]:
    """Return the nodes of a cluster on record: True if it is up."""
    settings = _settings_of(record)
    return dict(ExternalNodes(settings).alive())


def remove(record: ClusterRecord) -> None:
    """Remove topics, keys and checkpoints of a run on record."""
    settings = _settings_of(record)
    remove_topics(replace(settings.kafka, topic_prefix=prefix_of(record.run)))
    remove_keys(replace(settings.redis, key_prefix=prefix_of(record.run)))
    remove_checkpoints(settings, checkpoints_of(settings, record.run))


def _settings_of(record: ClusterRecord) -> ExternalSettings:
    try:
        return read_settings(Path(record.resources["settings"]))
    except UsageError as error:
        raise EnvironmentFailure(
            f"run {record.run} left something on a cluster whose description cannot be read: "
            f"{error.what}",
            remedy=f"{error.remedy}; then run `faultline cluster down`",
        ) from error
