"""The stock engine's answers, from substitutes that send a driver's messages."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from harness.child import Child, Event
from harness.cluster.base import Cluster
from harness.engines.settings import FIRST_COMPILER
from harness.engines.structured.applications import Application, application_conf
from harness.engines.structured.engine import StructuredEngine
from harness.errors import EnvironmentFailure


class Told(Application):
    """An application with these messages of its driver, and a living or dead process."""

    def __init__(self, directory: Path, events: list[Event], code: int | None = None) -> None:
        self.name, self.log, self.events, self._code = "told", directory / "log", events, code
        self.log.touch()

    @property
    def exit_code(self) -> int | None:
        return self._code

    def mark(self) -> int:
        return 0

    def newest(self, kind: str) -> Event | None:
        return next((event for event in self.events if event["event"] == kind), None)

    def order(self, command: str, **parameters: object) -> None:
        """Do nothing: there is no listener."""

    def failure(self, what: str) -> EnvironmentFailure:
        return EnvironmentFailure(what, remedy="none")

    def wait_for(self, what: str, found: object, **_: object) -> Event:
        raise self.failure(f"waiting for {what}")


def engine(*applications: Child) -> StructuredEngine:
    return StructuredEngine(
        [cast(Application, application) for application in applications], cast(Cluster, None)
    )


def test_a_query_that_is_not_done_is_no_error(tmp_path: Path) -> None:
    assert engine(Told(tmp_path, [])).drain(100.0, within_s=0) is False


def test_a_driver_that_has_ended_is_told_of_at_once(tmp_path: Path) -> None:
    """There is no wait for a batch that cannot come."""
    for gone in (Told(tmp_path, [], code=1), Told(tmp_path, [{"event": "died"}])):
        with pytest.raises(EnvironmentFailure, match="has ended"):
            engine(Told(tmp_path, []), gone).raise_problems()
        with pytest.raises(EnvironmentFailure, match="has ended"):
            engine(gone).drain(100.0, within_s=0)


def test_applications_whose_query_did_not_end_are_not_used_again(tmp_path: Path) -> None:
    hung = engine(Told(tmp_path, []))
    with pytest.raises(EnvironmentFailure, match="the end of its query"):
        hung.end()
    with pytest.raises(EnvironmentFailure, match="did not end"):
        hung.check()


def test_only_what_says_nothing_of_times_leaves_sparks_defaults() -> None:
    cluster = {"spark.driver.extraJavaOptions": "-XX:-UsePerfData"}
    brief, usual = (
        application_conf(cluster, name="x", cores=2, brief=brief) for brief in (True, False)
    )
    assert FIRST_COMPILER in brief["spark.driver.extraJavaOptions"]
    assert brief["spark.locality.wait"] == "0s"
    assert FIRST_COMPILER not in usual["spark.driver.extraJavaOptions"]
    assert "spark.locality.wait" not in usual
    own = application_conf(
        cluster, name="x", cores=2, brief=True, own={"spark.locality.wait": "1s"}
    )
    assert own["spark.locality.wait"] == "1s", "the user's own settings come before all of ours"
