"""``python -m harness.cluster.external.probe``: a small application on a foreign Spark cluster.

Reads its configuration as one JSON line. Its tasks say on which Python and which PySpark they run
and whether they can import this checkout; the answer is one JSON line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def look(numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    """What one executor is. Runs there."""
    import platform
    import socket

    import pyspark

    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "code": None,
    }
    try:
        from harness.cluster.external.code import fingerprint

        found["code"] = fingerprint()
    except ImportError as error:
        found["error"] = str(error)
    yield found


def main() -> None:
    from pyspark.sql import SparkSession

    conf = json.loads(sys.stdin.readline())
    builder = SparkSession.builder.appName("faultline-probe").config(map=conf)
    context = builder.getOrCreate().sparkContext
    print(json.dumps(context.parallelize(range(4), 4).mapPartitions(look).collect()), flush=True)
    context.stop()


if __name__ == "__main__":
    main()
