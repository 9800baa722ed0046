"""A small Spark application in a process of its own, for the tests of a cluster.

Reads its configuration as one JSON line, then runs one job per line on its standard input until
that closes. Writes one JSON line per finished job: the workers that ran its tasks."""

from __future__ import annotations

import json
import os
import sys
import time


def where(number: int) -> str:
    """Return the worker that runs this, after a pause that lets every free slot get a task."""
    time.sleep(0.1)
    return os.environ["FAULTLINE_WORKER"]


def main() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("cluster-test")
    for key, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(key, value)
    context = builder.getOrCreate().sparkContext
    for _ in sys.stdin:
        ran = context.parallelize(range(8), 8).map(where).collect()
        print(json.dumps(sorted(set(ran))), flush=True)


if __name__ == "__main__":
    main()
