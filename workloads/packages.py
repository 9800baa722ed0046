"""The user's own modules that a workload's file imports: found, and packed for executors.

Tests: ``tests/workloads/test_base.py``."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from harness.errors import UsageError

_OURS = Path(__file__).resolve().parents[1]


def beside(path: Path) -> list[Path]:
    """Return the loaded modules and packages that lie in the directory of a file."""
    place = path.resolve().parent
    found = {
        root
        for name, module in list(sys.modules.items())
        if "." not in name and (root := _root(getattr(module, "__file__", None))) is not None
        if root.parent == place and root != path.resolve()
    }
    return [] if place == _OURS else sorted(found)


def places(path: Path, packages: Sequence[str]) -> list[Path]:
    """Return the files and folders that executors need: those beside the file, and ``packages``.

    Raises `UsageError` for a package that cannot be found."""
    found = beside(path)
    for name in packages:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        root = _root(spec.origin if spec else None)
        if root is None:
            raise UsageError(
                f"{path}: packages names {name!r}, and there is no such package of Python files",
                remedy="give the name of a package as it is imported, without dots, that lies next "
                "to the file or is installed",
            )
        if root not in found:
            found.append(root)
    return found


def files_of(root: Path) -> list[Path]:
    """Return a file itself, or the files of a folder, without what Python compiles there."""
    found = sorted(root.rglob("*")) if root.is_dir() else [root]
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts]


def packed(roots: Sequence[Path], directory: Path) -> Path:
    """Write these files and folders as one archive that Python imports from; return its path.

    Its name has a hash of the content, so that a changed package is another archive."""
    files = {
        f"{root.name}/{file.relative_to(root)}" if root.is_dir() else root.name: file.read_bytes()
        for root in roots
        for file in files_of(root)
    }
    digest = sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
    target = directory / f"packages-{digest}.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(name, content)
    return target


def _root(file: str | None) -> Path | None:
    """Return the file of a module, or the folder of a package; None for what is not Python."""
    if file is None or not file.endswith(".py"):
        return None
    path = Path(file).resolve()
    return path.parent if path.name == "__init__.py" else path
