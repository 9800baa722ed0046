"""The file of hosts: what it says, and every mistake with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.backends import find_backend, name_of, recorded_backend
from harness.cluster.base import ClusterSpec
from harness.cluster.machines.settings import describes_machines, read_machines
from harness.errors import UsageError

GOOD = """\
machines:
  - {ssh: ubuntu@10.0.0.11, rack: r1, workers: 2}
  - {ssh: b, rack: r2, workers: 2}
  - {ssh: c, rack: r2, address: 10.0.0.13}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    return path


def test_a_file_lists_the_workers_of_each_rack(tmp_path: Path) -> None:
    machines = read_machines(written(tmp_path, GOOD))
    assert [machines.host_of(1, 2).ssh, machines.host_of(2, 2).ssh] == ["ubuntu@10.0.0.11", "c"]
    backend = find_backend(str(machines.path))
    assert backend.name == machines.name == name_of(str(machines.path))
    assert recorded_backend(machines.name).code == "harness.cluster.machines"
    cluster = backend.make(ClusterSpec(racks=2, workers_per_rack=2))
    assert [node.host for node in cluster.nodes()] == ["ubuntu@10.0.0.11"] * 2 + ["b", "c"]
    assert cluster.capabilities() == backend.capabilities
    assert machines.host_of(2, 3).ssh == "b", "the second one there, after one on every machine"
    with pytest.raises(UsageError, match=r"3 rack\(s\) of 1 worker\(s\) were asked for"):
        backend.make(ClusterSpec(racks=3))


def test_a_description_of_servers_is_no_file_of_machines(tmp_path: Path) -> None:
    assert not describes_machines(written(tmp_path, "kafka:\n  bootstrap: x\n"))


def test_services_have_a_machine_of_their_own_or_one_with_workers(tmp_path: Path) -> None:
    own = written(tmp_path, "services: {ssh: x, address: 10.0.0.9}\n" + GOOD)
    alone = read_machines(own).everyone[-1]
    assert (alone.ssh, alone.address) == ("x", "10.0.0.9")
    shared = read_machines(written(tmp_path, "services: {ssh: b}\n" + GOOD))
    assert shared.everyone == shared.machines == read_machines(written(tmp_path, GOOD)).everyone


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ssh: b", "shs: b", r"machines\[2\] has an unknown key 'shs'"),
        ("workers: 2", "workers: 0", r"machines\[1\].workers is 0"),
        ("ssh: b, rack: r2", "rack: r2", r"machines\[2\] lacks ssh"),
        ("rack: r1", "rack: one", r"machines\[1\].rack is 'one'"),
        ("rack: r1", "rack: r3", "the racks are r2, r3"),
        ("ssh: c", "ssh: b", "b is there twice"),
        ("machines:", "checkpoints: /mnt\nmachines:", "which is no URI"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read_machines(written(tmp_path, GOOD.replace(old, new, 1)))
    assert caught.value.remedy


def test_without_a_place_for_files_it_lacks_the_engines_that_need_one(tmp_path: Path) -> None:
    without = find_backend(str(written(tmp_path, GOOD)))
    assert "give `checkpoints:`" in (without.lacks(["structured", "flink"]) or "")
    assert without.lacks(["structured", "tasks"]) is None
    assert without.lacks([]) is None
    whole = find_backend(str(written(tmp_path, "checkpoints: hdfs://a/b\n" + GOOD)))
    assert whole.lacks(["structured"]) is None
