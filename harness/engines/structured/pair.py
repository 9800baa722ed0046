"""PySpark and the Kafka connector of another version: one small query shows that they fit.

The connector should have PySpark's own version, but the newest one that is published may be older.
`harness/environment/jars.lock.json` names the PySpark that its connector was tried with; the query
tries the pair on this machine: records into a topic of a real broker and back, through Spark.

Tests: ``tests/engines/test_structured.py``."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.cluster.backends import remove_made
from harness.cluster.base import ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.engines.topics import topics
from harness.environment.doctor import Finding, Status
from harness.text import Notify

NAME = "pyspark and Kafka"
RECORDS = 10
WITHIN_S = 90.0
TOPIC = "pair"


def examine(report: Notify) -> Finding:
    """Start a broker, and let a Spark of this environment write records to it and read them."""
    spec = ClusterSpec(racks=1, workers_per_rack=1)
    with LocalCluster(spec, remove=remove_made) as cluster:
        cluster.start(report)
        report("running one query")
        order = {"conf": cluster.spark_conf(), "kafka": cluster.kafka.spark()}
        made = topics(cluster.kafka, {TOPIC: 1})  # the broker makes none by itself
        try:
            with made:
                done = subprocess.run(
                    [sys.executable, "-P", "-m", __name__],
                    input=json.dumps(order),
                    env=cluster.driver_environment(),
                    capture_output=True,
                    text=True,
                    timeout=WITHIN_S,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            return finding(None, f"no answer within {WITHIN_S:.0f} s")
    return finding(done.returncode, done.stdout.strip() or done.stderr.strip()[-1000:])


def finding(code: int | None, said: str) -> Finding:
    """Return what the query's process shows: its exit code and its answer or last words."""
    if code == 0 and said == str(RECORDS):
        detail = f"{RECORDS} records went into a topic and came back"
        return Finding(name=NAME, status=Status.OK, detail=detail)
    return Finding(
        name=NAME,
        status=Status.MISSING,
        detail=f"a query that copies {RECORDS} records failed: {said}",
        remedy="start through ./faultline, which keeps PySpark and the connector as its lock files "
        "say; FAULTLINE_JAVA_HOME names another Java",
    )


def main() -> None:
    """Copy records with the configuration on standard input; print how many came back."""
    from pyspark.sql import SparkSession

    order = json.load(sys.stdin)
    # On a worker of the cluster: its settings ask for resources that a driver alone does not have.
    conf = {**order["conf"], "spark.app.name": "doctor"}
    spark = SparkSession.builder.config(map=conf).getOrCreate()
    kafka = spark.range(RECORDS).selectExpr("cast(id as string) as value").write.format("kafka")
    kafka.options(**order["kafka"]).option("topic", TOPIC).save()
    back = spark.read.format("kafka").options(**order["kafka"]).option("subscribe", TOPIC).load()
    sys.stdout.write(f"{back.count()}\n")
    spark.stop()


if __name__ == "__main__":
    main()
