"""Runs the tests against one mistake after the other, in a copy of the tree.

The copy is of what git knows, with what was changed in it, so that a hunt may run while somebody
works. The tests that must notice a mistake are those of the module's own package: the folder of the
same name under ``tests``, and every test file that imports the module itself.
"""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import EnvironmentFailure, UsageError
from harness.mutants.changes import Change, changes
from harness.seeds import generator

SELECTION = "not cluster and not slow"
"""Of the tests: those that a person runs after each edit."""
PATIENCE, PATIENCE_S = 4.0, 20.0
"""A run of tests that takes this many times as long as without a mistake, and so many seconds
more, hangs: the mistake was noticed."""
_NO_TESTS = 5


class Fate(StrEnum):
    """Whether a mistake was noticed."""

    CAUGHT = "caught"
    HUNG = "caught (the tests hung)"
    MISSED = "missed"
    UNTRIED = "not tried (its tests fail as they are)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One mistake and what the tests did."""

    change: Change
    fate: Fate
    seconds: float

    @property
    def noticed(self) -> bool:
        """Whether a test failed, or did not end."""
        return self.fate in (Fate.CAUGHT, Fate.HUNG)


def modules(root: Path, chosen: Sequence[Path]) -> list[Path]:
    """The modules under ``chosen`` (files or folders), relative to ``root``.

    Raises `UsageError` for a path that is not there or holds no module of this tree.
    """
    found: set[Path] = set()
    for path in chosen:
        whole = (root / path).resolve()
        files = sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]
        if not files or not whole.exists() or not whole.is_relative_to(root):
            raise UsageError(
                f"{path} holds no module of {root}",
                remedy="name modules or packages of this checkout, such as harness/planning",
            )
        found |= {file.relative_to(root) for file in files}
    return sorted(found)


def draw(root: Path, paths: Sequence[Path], count: int, seed: int) -> list[Change]:
    """``count`` changes of these modules, all equally likely; all of them if there are fewer."""
    every = [each for path in paths for each in changes(path, (root / path).read_text())]
    if len(every) <= count:
        return every
    picked = generator(seed, "mutants").choice(len(every), size=count, replace=False)
    return [every[number] for number in sorted(picked)]


def own_tests(root: Path, module: Path) -> list[Path]:
    """What must notice a mistake in ``module``, as paths under ``tests``."""
    parts = module.with_suffix("").parts
    package = parts[1:-1] if parts[0] == "harness" else parts[:-1]
    found = set()
    if package:
        folder = Path("tests", *package)
        while folder != Path("tests") and not (root / folder).is_dir():
            folder = folder.parent
        if folder != Path("tests"):
            found.add(folder)
    name = ".".join(parts)
    for path in sorted((root / "tests").rglob("test_*.py")):
        relative = path.relative_to(root)
        inside = any(relative.is_relative_to(folder) for folder in found)
        if not inside and name in _imported(path):
            found.add(relative)
    return sorted(found)


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def hunt(
    root: Path,
    mistakes: Sequence[Change],
    *,
    report: Callable[[str], None],
    result: Callable[[Result], None] = lambda found: None,
) -> list[Result]:
    """Put each mistake into a copy of ``root`` and run the tests that must notice it.

    Tests that fail without any mistake, twice, can notice none: theirs are not tried.
    """
    found = []
    usual_s: dict[tuple[Path, ...], float | None] = {}
    with copied(root) as copy:
        for mistake in mistakes:
            tests = tuple(own_tests(copy, mistake.path))
            if tests and tests not in usual_s:
                report(f"the tests of {mistake.path} as they are")
                usual_s[tests] = _usual_s(copy, tests) or _usual_s(copy, tests)
                if usual_s[tests] is None:
                    names = " ".join(str(test) for test in tests)
                    report(f"they fail without any mistake; see why: ./faultline test {names}")
            usual = usual_s.get(tests, 0.0)
            if usual is None:
                found.append(Result(change=mistake, fate=Fate.UNTRIED, seconds=0.0))
            else:
                limit_s = PATIENCE * usual + PATIENCE_S
                found.append(_try(copy, mistake, tests, limit_s))
            result(found[-1])
    return found


def _try(copy: Path, mistake: Change, tests: Sequence[Path], limit_s: float) -> Result:
    path = copy / mistake.path
    right = path.read_text()
    began = time.monotonic()
    try:
        path.write_text(mistake.applied(right))
        code = _run(copy, tests, limit_s) if tests else _NO_TESTS
    finally:
        path.write_text(right)
    seconds = time.monotonic() - began
    if code is None:
        return Result(change=mistake, fate=Fate.HUNG, seconds=seconds)
    noticed = code not in (0, _NO_TESTS)
    return Result(change=mistake, fate=Fate.CAUGHT if noticed else Fate.MISSED, seconds=seconds)


def _usual_s(copy: Path, tests: Sequence[Path]) -> float | None:
    """How long these tests take without a mistake; None if they fail."""
    began = time.monotonic()
    code = _run(copy, tests, None)
    return time.monotonic() - began if code in (0, _NO_TESTS) else None


def _run(copy: Path, tests: Sequence[Path], limit_s: float | None) -> int | None:
    """pytest's exit code; None if it took longer than the limit. No process is left."""
    command = [
        *(sys.executable, "-P", "-m", "pytest", "-x", "-q", "-n0", "-m", SELECTION),
        *("-p", "no:cacheprovider", *(str(test) for test in tests)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of what git knows of ``root``, as it stands now."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentFailure(
            f"git cannot list the files of {root}", remedy="run this inside a git checkout"
        ) from error
    with TemporaryDirectory(prefix="faultline-mutants-") as folder:
        copy = Path(folder).resolve()
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        if (root / ".venv").exists():
            (copy / ".venv").symlink_to((root / ".venv").resolve())
        yield copy
