"""The records that a change voids."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.cluster.backends import recorded_backend
from harness.errors import EnvironmentFailure
from harness.nightly import impact as impacts
from harness.nightly.impact import Measured, fingerprints, impact
from harness.nightly.revisions import working_tree
from harness.nightly.sampling import Side
from harness.results import load
from harness.running.code import code_of
from harness.running.discovery import all_experiments, find

FEW = ("intervals/dag-delay", "ppa/drift")


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `FEW` other code in the revision than here."""
    monkeypatch.setattr(impacts, "code_of", lambda measurement, backend: measurement.id)

    def then(side: Side, pairs: Sequence[Measured]) -> Mapping[Measured, str | None]:
        kept = {each.measurement.id for each in all_experiments()} - set(FEW)
        return {(name, backend): name if name in kept else None for name, backend in pairs}

    monkeypatch.setattr(impacts, "fingerprints", then)


def test_void_records_are_counted_with_their_time(changed: None) -> None:
    library = load()
    found = impact(working_tree(), library, ["harness/seeds.py", "README.md"])
    assert {each.experiment for each in found} == set(FEW)
    for each in found:
        own = [run.record for run in library.found if run.record.experiment == each.experiment]
        assert each.changed == ["harness/seeds.py"], "of the changed files those that it reaches"
        assert each.records == each.of == len(own)
        assert each.seconds == pytest.approx(sum(run.seconds for run in own))
    assert found[0].seconds >= found[1].seconds


def test_the_command_names_measurements_and_hours(
    changed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.nightly.revisions.build", lambda *_, **__: working_tree())
    done = CliRunner().invoke(cli, ["impact", "HEAD"])
    assert done.exit_code == 0, done.output
    assert all(name in done.output for name in FEW)
    assert "measuring them again takes about" in done.output


def test_a_tree_computes_the_code_of_its_measurements() -> None:
    measurement = find([FEW[0]])[0].measurement
    codes = fingerprints(working_tree(), [(measurement.id, ""), ("ppa/none", "")])
    assert list(codes.values()) == [code_of(measurement, recorded_backend("")), None]


def test_a_tree_that_does_not_import_is_named(tmp_path: Path) -> None:
    broken = Side(name="an older one", root=tmp_path, python=Path(sys.executable))
    with pytest.raises(EnvironmentFailure, match=r"an older one: .*No module named 'harness"):
        fingerprints(broken, [("ppa/drift", "")])
