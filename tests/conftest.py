"""Fixtures that several packages share."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.levels import DIVISORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long a test takes says something of the machine only: a busy one must fail none.
settings.register_profile("faultline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
for name, divisor in DIVISORS.items():
    settings.register_profile(
        name, settings.get_profile("faultline"), max_examples=settings().max_examples // divisor
    )
settings.load_profile("faultline")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "Run modules, and the tests in each, in the order of this seed."
    parser.addoption("--shuffle", type=int, metavar="SEED", help=help_text)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the order of the tests, so that it can be had again."""
    seed = config.getoption("--shuffle")
    return [] if seed is None else [f"order: --shuffle {seed}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle modules, and the tests in each, if asked to.

    Tests that share something expensive (the Spark session, or the smoke grids of a module) get one
    process of xdist's ``loadgroup``."""
    if (seed := config.getoption("--shuffle")) is not None:
        draws = random.Random(seed)
        places = {path: draws.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (places[item.path], draws.random()))
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "experiments" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Give the next test the environment variables that this one found."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start a Spark session inside this process, without a cluster."""
    from pyspark.sql import SparkSession

    from harness.engines.structured.session import settings_of
    from harness.environment.java import find_java

    building = SparkSession.builder.master("local[1]").config(map=settings_of({}))
    with pytest.MonkeyPatch.context() as patch:  # other tests of this process find Java themselves
        patch.setenv("JAVA_HOME", str(find_java().home))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = building.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
