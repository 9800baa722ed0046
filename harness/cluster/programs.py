"""The programs of a local cluster, found before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.text import Notify


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
