"""Alarms of the gate, revisions, bisection, and the list of benchmarks."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure, UsageError
from harness.nightly import gate, revisions
from harness.nightly.gate import claim_changes, measure_night
from harness.nightly.history import ClaimNight, Night
from harness.nightly.metrics import HOT_LOOPS, METRICS, RECOVERIES, Metric, chosen, turns_of
from harness.nightly.sampling import BENCHMARKS, Gathered
from harness.nightly.statistics import Change, Pairs


def claim(held: bool | None, text: str = "y rises") -> ClaimNight:
    return ClaimNight(experiment="a/b", profile="quick", text=text, kind="paper", held=held)


@pytest.mark.parametrize(
    ("before", "tonight", "alarm"),
    [
        (True, False, "held before and does not hold tonight"),
        (True, None, "was decided before and is not measured tonight"),
        (False, None, "was decided before and is not measured tonight"),
        (True, True, None),
        (False, False, None),
        (None, None, None),
        (None, False, None),
        (False, True, None),
    ],
)
def test_a_claim_that_got_worse_is_an_alarm(
    before: bool | None, tonight: bool | None, alarm: str | None
) -> None:
    _, alarms = claim_changes([claim(before)], [claim(tonight)])
    assert [alarm in each for each in alarms] if alarm else not alarms


def test_a_claim_that_became_undecided_has_its_reason() -> None:
    (alarm,) = claim_changes([claim(True)], [replace(claim(None), undecided="2 samples")])[1]
    assert alarm.endswith("was decided before and is undecided tonight: 2 samples")


def test_every_benchmark_is_in_the_list_and_the_other_way_round() -> None:
    found = {
        (path.name, node.name.removeprefix("test_"))
        for path in BENCHMARKS.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert found == {(loop.file, loop.name) for loop in HOT_LOOPS}


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(UsageError, match="no nightly metric 'codek'") as error:
        chosen(("codek",))
    assert "codec" in error.value.remedy


def test_metrics_are_chosen_by_name() -> None:
    assert chosen(()) == METRICS
    assert chosen((), live=False) == HOT_LOOPS
    names = ("kill_tasks_lost", "codec", "live_cpu")
    assert tuple(metric.name for metric in chosen(names)) == names
    assert [metric.name for metric in chosen(names, live=False)] == ["codec"]


def night_of(monkeypatch: pytest.MonkeyPatch, looks: Sequence[dict[str, Sequence[float]]]) -> Night:
    """Return a night in which the kills of each look cost these, and nothing at the baseline."""
    left = iter(looks)

    def gathered(
        metrics: Sequence[Metric], *_: object, fresh_of: int | None, **__: object
    ) -> Gathered:
        look, found = next(left), Gathered({}, {})
        for metric in metrics:
            (count,) = turns_of([metric], fresh_of).values()
            costs = look.get(metric.name, [0.0] * count)
            assert len(costs) == count
            found.pairs[metric.name] = Pairs(
                baseline=[0.0] * count, tonight=costs, scale=metric.scale, fewest=metric.fewest
            )
        return found

    monkeypatch.setattr(gate, "gather_live", gathered)
    side = revisions.working_tree()
    return measure_night(
        RECOVERIES, side, side, claims=(), last=None, pairs=8, seed=1, report=lambda text: None
    )


def test_a_longer_outage_is_an_alarm_after_fresh_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    longer: dict[str, Sequence[float]] = {"kill_structured_outage": [2.0, 9.0, 3.0]}
    night = night_of(monkeypatch, [longer, {"kill_structured_outage": [1.5, 2.5] * 4}])
    (alarm,) = night.alarms
    assert "kill_structured_outage: +2 s (+1.5 to +2.5)" in alarm
    assert night.metrics["kill_structured_outage"].verdict == Change.WORSE
    night = night_of(monkeypatch, [longer, {"kill_structured_outage": [0.0, *[2.5] * 7]}])
    assert not night.alarms, "one of the fresh kills costs no more than at the baseline"


def test_results_lost_by_one_kill_alone_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    night = night_of(monkeypatch, [{"kill_tasks_lost": [0, 0, 7, 0, 0]}])
    assert not night.alarms
    assert [note for note in night.notes if "up to 7 in 1 of 5 kills" in note]


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def commit(root: Path, subject: str) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", subject], check=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with a revision that runs and one that does not."""
    root, program = tmp_path / "repository", "harness/cli/__main__.py"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    write(root, {"harness/cli/__init__.py": "", "requirements.lock": ""})
    for text in ("print('version 1')", "def broken(:"):
        write(root, {program: text})
        commit(root, text)
    monkeypatch.setattr(revisions, "ROOT", root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def test_the_commits_between_two_are_named(repository: Path) -> None:
    after, before = revisions.git("log", "--format=%h").splitlines()
    assert revisions.commits_between(before, after) == [f"{after} (def broken(:)"]
    assert revisions.commits_between("elsewhere", after) == []


def test_a_revision_is_built_once_beside_the_tree(repository: Path) -> None:
    said: list[str] = []
    revision = revisions.resolve("HEAD~1")
    side = revisions.build(revision, report=said.append)
    assert side.root != repository
    assert "version 1" in (side.root / "harness" / "cli" / "__main__.py").read_text()
    assert revisions.build(revision, report=said.append) == side
    assert sum("building" in text for text in said) == 1


def test_a_revision_that_does_not_build_is_named(repository: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"cannot be built: .*SyntaxError") as error:
        revisions.build(revisions.resolve("HEAD"), report=print)
    assert "--baseline" in error.value.remedy


def test_a_revision_that_is_not_there_is_named(repository: Path) -> None:
    with pytest.raises(UsageError, match="no revision 'nonsense'"):
        revisions.resolve("nonsense")


def test_only_what_is_measured_counts_as_changed(repository: Path) -> None:
    module = '"""A docstring."""\nA = 1\n'
    write(repository, {"harness/a.py": module, "harness/b.py": module})
    commit(repository, "modules")
    head = revisions.resolve("HEAD")
    assert revisions.changed_code(head) == []
    changed = {
        "README.md": "other words",
        "docs/example.yaml": "a: 1",
        "tests/test_a.py": "assert True",
        "harness/a.py": '"""Another docstring."""\n\n# and a comment\nA = 1\n',
        "harness/b.py": '"""A docstring."""\nA = 2\n',
        "harness/new.py": "A = 1\n",
        "requirements.lock": "numpy==3\n",
    }
    counted = ["harness/b.py", "harness/new.py", "requirements.lock"]
    write(repository, changed)
    assert revisions.changed_code(head) == counted
    commit(repository, "a change")
    assert revisions.changed_code(head) == counted


def test_a_reworded_claim_is_the_same_by_its_id() -> None:
    old, new = (replace(claim(True, text), id="rises") for text in ("old words", "new words"))
    assert claim_changes([old], [new]) == ([], [])
    _, alarms = claim_changes([old], [replace(new, held=False)])
    assert "does not hold tonight" in alarms[0]
    assert claim_changes([claim(True)], [replace(claim(True), id="rises")]) == ([], [])
