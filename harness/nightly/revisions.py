"""Revisions that are built in the user's cache.

A revision is a git worktree of its own. Where it asks for the same packages as this checkout it
uses this checkout's environment; otherwise its own launcher makes it one, as for a user."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cache import cache_directory, locked
from harness.errors import EnvironmentFailure, UsageError
from harness.nightly.sampling import Side
from harness.results.provenance import ROOT
from harness.results.reach import hash_of
from harness.text import Notify

KEPT = 6
"""Number of built revisions in the cache; the least recently used go first."""
_DOCUMENTS = (".md", ".rst", ".ipynb")
_BESIDE = ("tests", "docs", "results", ".github", ".ci")
"""Directories with nothing that a night measures."""
_BUILD_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit by its full name."""

    commit: str
    subject: str

    @property
    def short(self) -> str:
        """The beginning of its name, which is enough to identify it."""
        return self.commit[:12]

    def __str__(self) -> str:
        return f"{self.short} ({self.subject})"


def resolve(name: str) -> Revision:
    """Find the commit of ``name`` (a branch, a tag, a hash, HEAD~3). Raises `UsageError`."""
    try:
        found = git("log", "-1", "--format=%H %s", f"{name}^{{commit}}", "--")
    except EnvironmentFailure as error:
        shallow = (ROOT / ".git" / "shallow").exists()
        raise UsageError(
            f"there is no revision {name!r} in {ROOT}",
            remedy="fetch the whole history: git fetch --unshallow"
            if shallow
            else "name a commit, tag or branch; git log --oneline shows them",
        ) from error
    commit, _, subject = found.partition(" ")
    return Revision(commit=commit, subject=subject)


def working_tree() -> Side:
    """Return this checkout, with its uncommitted changes."""
    return Side(name="working tree", root=ROOT, python=Path(sys.executable))


def build(revision: Revision, *, report: Notify, own_packages: bool = True) -> Side:
    """Build a tree of ``revision``. Raises `EnvironmentFailure` if it does not run.

    Without ``own_packages`` it uses this checkout's, whatever it asks for."""
    folder = cache_directory() / "revisions"
    folder.mkdir(exist_ok=True)
    tree = folder / revision.commit
    with locked("revisions", report=report):
        if not (tree / ".git").exists():
            report(f"building {revision}")
            shutil.rmtree(tree, ignore_errors=True)
            git("worktree", "prune")
            git("worktree", "add", "--detach", "--force", str(tree), revision.commit)
        os.utime(tree)
        ours = Path(sys.executable)
        python = _environment(tree, revision, report) if own_packages else ours
        _prune(folder)
    _run([str(python), "-P", "-m", "harness.cli", "--version"], tree, revision)
    return Side(name=revision.short, root=tree, python=python)


def _environment(tree: Path, revision: Revision, report: Notify) -> Path:
    lock = tree / "requirements.lock"
    if lock.exists() and lock.read_bytes() == (ROOT / "requirements.lock").read_bytes():
        return Path(sys.executable)
    launcher = tree / "faultline"
    if not launcher.exists():
        raise _unbuildable(revision, "it has no launcher and other packages than this checkout")
    report(f"{revision.short} asks for other packages: making its environment (a few minutes)")
    _run([str(launcher), "--version"], tree, revision)
    return tree / ".venv" / "bin" / "python"


def _run(command: Sequence[str], tree: Path, revision: Revision) -> None:
    """Run a command line of a tree. Raises `EnvironmentFailure` with its last words if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise _unbuildable(revision, f"no end within {_BUILD_TIMEOUT_S} s") from error
    if done.returncode:
        raise _unbuildable(revision, _last_lines(done.stderr))


def _unbuildable(revision: Revision, why: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"revision {revision} cannot be built: {why}",
        remedy="compare with another revision: --baseline REVISION",
    )


def _last_lines(text: str, most: int = 3) -> str:
    return " / ".join(line.strip() for line in text.strip().splitlines()[-most:]) or "no message"


def _prune(folder: Path) -> None:
    trees = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for tree in trees[KEPT:]:
        shutil.rmtree(tree, ignore_errors=True)
    git("worktree", "prune")


def commits_between(before: str, after: str) -> list[str]:
    """Return the commits after ``before`` up to ``after``; none where one of them is not here."""
    try:
        return git("log", "--format=%h (%s)", f"{before}..{after}", "--").splitlines()
    except EnvironmentFailure:
        return []


def changed_code(revision: Revision) -> list[str]:
    """Return the files that differ from a revision and can change a measurement.

    Documents, tests and results cannot, nor can comments, docstrings and layout of Python."""
    names = git("diff", "--name-only", revision.commit, "--").splitlines()
    names += git("ls-files", "--others", "--exclude-standard").splitlines()
    return [name for name in sorted(set(names)) if _counts(name, revision)]


def _counts(name: str, revision: Revision) -> bool:
    path = Path(name)
    if path.suffix in _DOCUMENTS or path.parts[0] in _BESIDE:
        return False
    if path.suffix != ".py" or not (ROOT / path).exists():
        return True
    try:
        before = git("show", f"{revision.commit}:{name}")
        trees = ast.parse(before), ast.parse((ROOT / path).read_text())
        return hash_of(trees[:1]) != hash_of(trees[1:])
    except (EnvironmentFailure, SyntaxError):
        return True  # it is new, or cannot be read


def git(*arguments: str) -> str:
    """Return the output of a git command in this checkout."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise EnvironmentFailure(
            "git is missing", remedy="install git; revisions are compared through it"
        ) from error
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", "") or str(error)
        raise EnvironmentFailure(
            f"git {arguments[0]} failed in {ROOT}: {_last_lines(said)}",
            remedy="run it inside a git checkout that you can write to",
        ) from error
    return done.stdout.strip()
