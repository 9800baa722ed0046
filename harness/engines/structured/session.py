"""A Spark session inside this process, without a cluster: the place where samples run.

What Spark and its Python workers write goes into a log, and not between the user's lines.

Tests: ``tests/engines/test_structured.py``."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.engines.settings import FIRST_COMPILER
from harness.engines.structured.applications import FILE_MANAGER, SHUFFLE_PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS_WITHIN_S = 20.0
LOG = "spark.log"
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    # A sample lasts seconds: better code would not pay.
    "spark.driver.extraJavaOptions": FIRST_COMPILER,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
}
"""Settings that the user's own override."""
FIXED: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # One slot: more parts of a state would only be slower.
    SHUFFLE_PARTITIONS: "1",
    "spark.sql.streaming.metricsEnabled": "false",
}
"""Settings of the place where a sample runs; the user's are for a cluster."""
_PLACE = ("spark.master", "spark.driver.memory", "spark.executor.", "spark.cores.max")
"""Beginnings of names that are for a cluster, too."""


def settings_of(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a sample's session, with these of the user's job."""
    own = {name: value for name, value in conf.items() if not name.startswith(_PLACE)}
    return {**SETTINGS, **own, **FIXED}


@contextmanager
def local_session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Open a session with these settings of the user's; its JVM ends with it, or stays (`keep`)."""
    settings = settings_of(conf)
    if _KEPT:
        yield _KEPT[-1].fresh(settings)
        return
    with _opened(settings) as session:
        yield session


@contextmanager
def keep() -> Iterator[None]:
    """Keep the JVM of sessions for later ones with the same settings, until the block ends."""
    with ExitStack() as stack:
        _KEPT.append(_Kept(stack))
        try:
            yield
        finally:
            _KEPT.pop()


class _Kept:
    """The JVM of the last session, which the next one uses if it can."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._settings: Mapping[str, str] = {}
        self._session: Any = None

    def fresh(self, settings: Mapping[str, str]) -> SparkSession:
        """Return a session with nothing of an earlier one; an executor keeps what it imported."""
        of = self._session
        ended = of is None or of.sparkContext._jsc is None
        if ended or self._settings != settings or of.sparkContext._python_includes:
            self._stack.close()
            self._session = of = self._stack.enter_context(_opened(settings))
            self._settings = settings
        of.catalog.clearCache()
        session: Any = of.newSession()
        session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
        return cast("SparkSession", session)


_KEPT: list[_Kept] = []


@contextmanager
def _opened(own: Mapping[str, str]) -> Iterator[SparkSession]:
    from harness.environment.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # PySpark logs each mistake that it raises, as a line of JSON.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="faultline-sample-") as directory:
        settings = SparkConf(loadDefaults=False).setAll([*own.items()])
        settings.setMaster("local[1]").setAppName("sample")
        log = Path(directory) / LOG
        with log.open("wb") as lines:
            java = SparkConf(loadDefaults=False).setAll(_of_java(settings.getAll()))
            gateway = launch_gateway(java, {"stdout": lines, "stderr": lines})
        session = SparkSession(SparkContext(conf=settings, gateway=gateway))
        try:
            yield session
        finally:
            session.stop()
            _end_java(SparkContext)


@contextmanager
def with_settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Give a session that runs these settings for the duration of the block.

    Settings that only a new session can take are left out."""
    before = {name: spark.conf.get(name, None) for name in conf if spark.conf.isModifiable(name)}
    for name in before:
        spark.conf.set(name, conf[name])
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _of_java(settings: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the settings that a JVM needs at its start; others may be secret."""
    return [each for each in settings if each[0].startswith(("spark.driver.", "spark.jars"))]


def _end_java(context: Any) -> None:
    """End the session's JVM, which would otherwise stay until this process ends."""
    gateway, context._gateway, context._jvm = context._gateway, None, None
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
