"""The tool that asks whether tests notice must itself notice."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.mutants.changes import changes
from harness.mutants.hunt import Fate, draw, hunt, modules, own_tests
from harness.results.provenance import ROOT

SOURCE = '''"""A module: a < b."""
from typing import TYPE_CHECKING

if TYPE_CHECKING or 1 > 2:
    pass


def f(a: int | None, *, ö: str = "a" + "b") -> int:  # a + b
    assert a < 3, "a < 3"
    if a is not None and not (a  # < here
            <= 2):
        return a * 2 - 1
    return len(f"{a + 1}" + ö) // 2 if "é" in ö else 0
'''


def test_changes_are_operators_and_nothing_else() -> None:
    found = changes(Path("m.py"), SOURCE)
    assert [(each.right, each.wrong, each.line) for each in found] == [
        ("or", "and", 4),
        (">", ">=", 4),
        ("is not", "is", 10),
        ("and", "or", 10),
        ("not ", "", 10),
        ("<=", "<", 11),
        ("*", "/", 12),
        ("-", "+", 12),
        ("//", "*", 13),
        ("in", "not in", 13),
    ]


def test_a_changed_module_is_still_a_program_and_another_one() -> None:
    for each in draw(
        ROOT, modules(ROOT, [Path("harness/measure"), Path("harness/seeds.py")]), 20, 1
    ):
        source = (ROOT / each.path).read_text()
        assert ast.dump(ast.parse(each.applied(source))) != ast.dump(ast.parse(source)), each


def test_a_draw_is_decided_by_its_seed() -> None:
    paths = modules(ROOT, [Path("harness/planning")])
    assert draw(ROOT, paths, 5, 1) == draw(ROOT, paths, 5, 1) != draw(ROOT, paths, 5, 2)
    assert len(draw(ROOT, paths, 10**6, 1)) > 100


def test_the_tests_of_a_module_are_those_of_its_package_and_those_that_import_it() -> None:
    found = own_tests(ROOT, Path("harness/measure/windows.py"))
    assert Path("tests/measure") in found
    assert not any(path.is_relative_to("tests/planning") for path in found)
    assert Path("tests/test_child.py") in own_tests(ROOT, Path("harness/child.py"))


def test_a_path_outside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no module"):
        modules(ROOT, [tmp_path])
    with pytest.raises(UsageError, match="holds no module"):
        modules(ROOT, [Path("harness/no_such_package")])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a module, and a test that looks at half of it."""
    root = tmp_path / "tree"
    (root / "harness" / "part").mkdir(parents=True)
    (root / "tests" / "part").mkdir(parents=True)
    (root / "harness" / "part" / "sums.py").write_text(
        "def least(a, b):\n    return a if a < b + 0 else b\n\n\n"
        "def unseen(a):\n    return a > 3\n\n\n"
        "def count(n):\n    while n != 0:\n        n = n - 1\n    return n\n"
    )
    (root / "tests" / "part" / "test_sums.py").write_text(
        "from harness.part.sums import count, least\n\n\n"
        "def test_it():\n    assert least(1, 5) == 1 and least(7, 5) == 5\n"
        "    assert count(3) == 0\n"
    )
    (root / "pytest.ini").write_text("[pytest]\nmarkers =\n    cluster\n    slow\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.mark.deep
@pytest.mark.slow
def test_mistakes_are_caught_missed_or_hang(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mistakes = draw(tree, modules(tree, [Path("harness/part")]), 100, 1)
    endless = [each for each in mistakes if each.text == "n = n - 1"]
    found = hunt(tree, [each for each in mistakes if each not in endless], report=silent)
    fates = {(each.change.right, each.change.text): each.fate for each in found}
    assert fates == {
        ("<", "return a if a < b + 0 else b"): Fate.MISSED,
        ("+", "return a if a < b + 0 else b"): Fate.MISSED,
        (">", "return a > 3"): Fate.MISSED,
        ("!=", "while n != 0:"): Fate.CAUGHT,
    }
    monkeypatch.setattr("harness.mutants.hunt.PATIENCE_S", 0.0)
    assert [each.fate for each in hunt(tree, endless, report=silent)] == [Fate.HUNG]
    assert "a < b" in (tree / "harness" / "part" / "sums.py").read_text(), "only the copy changes"


@pytest.mark.deep
@pytest.mark.slow
def test_tests_that_fail_without_a_mistake_are_no_judge(tree: Path) -> None:
    (tree / "tests" / "part" / "test_sums.py").write_text("def test_it():\n    assert False\n")
    mistakes = draw(tree, modules(tree, [Path("harness/part")]), 2, 1)
    said: list[str] = []
    found = hunt(tree, mistakes, report=said.append)
    assert [each.fate for each in found] == [Fate.UNTRIED] * 2
    assert not any(each.noticed for each in found)
    assert said[1:] == ["they fail without any mistake; see why: ./faultline test tests/part"], (
        "said once for a module"
    )


def silent(text: str) -> None:
    """Nobody reads it."""
