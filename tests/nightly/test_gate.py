"""Alarms of the gate, revisions, bisection, and the list of benchmarks."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure, UsageError
from harness.nightly import gate, revisions
from harness.nightly.gate import claim_changes, measure_night
from harness.nightly.history import ClaimNight, Night
from harness.nightly.metrics import HOT_LOOPS, METRICS, RECOVERIES, Metric, chosen, turns_of
from harness.nightly.moves import moves
from harness.nightly.sampling import BENCHMARKS, Gathered
from harness.nightly.statistics import Change, Pairs
from tests.nightly.test_history import night


def claim(held: bool | None, text: str = "y rises", experiment: str = "a/b") -> ClaimNight:
    return ClaimNight(experiment=experiment, profile="quick", text=text, kind="paper", held=held)


@pytest.mark.parametrize(
    ("before", "tonight", "alarm"),
    [
        (True, False, "held before and does not hold tonight"),
        (True, None, "was measured before and is not measured tonight"),
        (False, None, "was measured before and is not measured tonight"),
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


def test_a_level_that_moved_names_the_commit_of_the_repository(repository: Path) -> None:
    slow, fast = revisions.git("log", "--format=%h").splitlines()
    levels = [(fast, 1.0)] * 10 + [(slow, 1.3)] * 4
    nights = [
        replace(night(number, seconds=level * (1 + number % 2 / 50)), commit=commit)
        for number, (commit, level) in enumerate(levels)
    ]
    (move,) = moves(nights)
    sentence = move.sentence(revisions.commits_between)
    assert move.worse
    assert sentence.endswith(f"moved by +30% with the commit {slow} (def broken(:)"), sentence
    assert not moves(nights[:-1]), "the third night is not certain"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with a revision that runs and one that does not."""
    root = tmp_path / "repository"
    (root / "harness" / "cli").mkdir(parents=True)
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]

    def commit(text: str) -> None:
        (root / "harness" / "cli" / "__init__.py").write_text("")
        (root / "harness" / "cli" / "__main__.py").write_text(text)
        (root / "requirements.lock").write_text("")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", text.splitlines()[0]], check=True)

    subprocess.run([*git, "init", "-q"], check=True)
    commit("print('version 1')")
    commit("def broken(:")
    monkeypatch.setattr(revisions, "ROOT", root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


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


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("README.md", "other words", False),
        ("docs/example.yaml", "a: 1", False),
        ("tests/test_a.py", "assert True", False),
        ("harness/a.py", '"""Another docstring."""\n\n# and a comment\nA = 1\n', False),
        ("harness/a.py", '"""A docstring."""\nA = 2\n', True),
        ("harness/new.py", "A = 1\n", True),
        ("requirements.lock", "numpy==3\n", True),
    ],
)
def test_only_what_is_measured_counts_as_changed(
    repository: Path, name: str, text: str, counts: bool
) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    (repository / "harness" / "a.py").write_text('"""A docstring."""\nA = 1\n')
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "a module"], check=True)
    head = revisions.resolve("HEAD")
    assert revisions.changed_code(head) == []
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text(text)
    assert revisions.changed_code(head) == ([name] if counts else [])
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "a change"], check=True)
    assert revisions.changed_code(head) == ([name] if counts else [])


def test_a_reworded_claim_is_the_same_by_its_id() -> None:
    old, new = (replace(claim(True, text), id="rises") for text in ("old words", "new words"))
    assert claim_changes([old], [new]) == ([], [])
    _, alarms = claim_changes([old], [replace(new, held=False)])
    assert "does not hold tonight" in alarms[0]
    assert claim_changes([claim(True)], [replace(claim(True), id="rises")]) == ([], [])
