"""Fetching pinned files: checked, resumed, repaired, and never twice for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from harness.environment import jars
from harness.environment.jars import ensure_jars, locked_jars
from harness.environment.java import Java
from harness.errors import EnvironmentFailure

CONTENT = {"kafka": b"a broker" * 100, "metrics": b"numbers", "connector": b"a bridge" * 10}
JAVA = Java(home=Path("/j"), executable=Path("/j/bin/java"), version=17, source="PATH")


class Central:
    """A substitute for Ivy and its repository: provides ``content``, and counts requests."""

    def __init__(self, content: Mapping[str, bytes]) -> None:
        self.content = dict(content)
        self.asked: list[str] = []

    def __call__(
        self, java: Java, scratch: Path, arguments: Sequence[str], *, watch: Callable[[], int]
    ) -> tuple[int, str]:
        settings = Path(arguments[arguments.index("-settings") + 1]).read_text()
        module = Path(arguments[arguments.index("-ivy") + 1]).read_text()
        into = Path(re.findall(r'defaultCacheDir="([^"]*)"', settings)[0])
        assert 'transitive="false"' in module
        for group, artifact, version in re.findall(
            r'<dependency org="([^"]*)" name="([^"]*)" rev="([^"]*)"', module
        ):
            self.asked.append(artifact)
            (into / group / artifact).mkdir(parents=True)  # the notes that Ivy keeps
            if artifact in self.content:
                (into / f"{group}.{artifact}-{version}.jar").write_bytes(self.content[artifact])
            watch()
        missing = CONTENT.keys() - self.content.keys()
        return (1, "Server access error (java.net.UnknownHostException: x)") if missing else (0, "")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    def pin(name: str) -> dict[str, object]:
        content = CONTENT[name]
        pins = {"sha256": sha256(content).hexdigest(), "size": len(content)}
        return {"group": "org.example", "artifact": name, "version": "1.0", **pins}

    path = tmp_path / "lock.json"
    sets = {"broker": [pin("kafka"), pin("metrics")], "connector": [pin("connector")]}
    path.write_text(json.dumps({"sets": sets}))
    return path


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> Central:
    central = Central(CONTENT)
    monkeypatch.setattr(jars, "run_ivy", central)
    monkeypatch.setattr(jars, "find_java", lambda report: JAVA)
    return central


def test_first_use_fetches_all_and_the_next_nothing(
    lock: Path, central: Central, lines: list[str]
) -> None:
    found = ensure_jars(lines.append, lock=lock)
    assert {path.name for path in found.broker.iterdir()} == {
        "org.example.kafka-1.0.jar",
        "org.example.metrics-1.0.jar",
    }
    assert [path.read_bytes() for path in found.connector] == [CONTENT["connector"]]
    assert any("3 of 3" in line for line in lines)
    central.asked.clear()
    lines.clear()
    assert ensure_jars(lines.append, lock=lock) == found
    assert (central.asked, lines) == ([], [])


def test_what_has_come_is_kept(lock: Path, central: Central, lines: list[str]) -> None:
    del central.content["metrics"]
    with pytest.raises(EnvironmentFailure, match=r"1 of the pinned jars.*metrics") as failure:
        ensure_jars(lines.append, lock=lock)
    assert "UnknownHostException" in failure.value.what
    assert "start again" in failure.value.remedy
    central.content["metrics"] = CONTENT["metrics"]
    central.asked.clear()
    ensure_jars(lines.append, lock=lock)
    assert central.asked == ["metrics"]


@pytest.mark.parametrize("damage", [b"", b"A broker" * 100, b"a broker"])
def test_damaged_file_is_fetched_again(
    damage: bytes, lock: Path, central: Central, lines: list[str]
) -> None:
    found = ensure_jars(lines.append, lock=lock)
    damaged = found.broker / "org.example.kafka-1.0.jar"
    damaged.write_bytes(damage)
    central.asked.clear()
    lines.clear()
    ensure_jars(lines.append, lock=lock)
    assert central.asked == ["kafka"]
    assert damaged.read_bytes() == CONTENT["kafka"]
    assert "not what was pinned" in lines[0]


def test_wrong_file_never_gets_its_place(
    lock: Path, central: Central, cache: Path, lines: list[str]
) -> None:
    central.content["kafka"] = b"a trojan" * 100
    with pytest.raises(EnvironmentFailure, match=r"org\.example\.kafka"):
        ensure_jars(lines.append, lock=lock)
    assert any("another SHA-256" in line for line in lines)
    assert not list(cache.rglob("*kafka*.jar"))


def test_without_leave_nothing_is_fetched(lock: Path, central: Central) -> None:
    with pytest.raises(EnvironmentFailure, match="3 of the pinned jars"):
        ensure_jars(fetch=False, lock=lock)
    assert central.asked == []


def test_the_lock_of_the_repository() -> None:
    sets = locked_jars()
    names = {name: [jar.artifact for jar in found] for name, found in sets.items()}
    assert "kafka_2.13" in names["broker"]
    assert "log4j-slf4j-impl" in names["broker"]
    assert len({jar.name for jar in sets["broker"]}) == len(sets["broker"])
    for jar in [*sets["broker"], *sets["connector"]]:
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256), jar
        assert jar.size > 0
