"""The archive for reviewers: appendix, source, records and checksums in one tar file.

Equal records and an equal commit give equal bytes.

Tests: ``tests/pages/test_artifact.py``."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from harness.errors import UsageError
from harness.pages.appendix import Source, html, markdown
from harness.pages.layout import TEMPLATES
from harness.pages.sentences import claims_json
from harness.pages.walk import assessments
from harness.results import archive
from harness.results.provenance import ROOT
from harness.results.store import RecordStore
from harness.text import Notify

NAME = "faultline-artifact"
"""The folder in the archive."""
SUMS = "SHA256SUMS"
_SCRIPT = "ten-minutes.sh"
_DEADLINE_S = 120.0
Files = Mapping[str, tuple[bytes, bool]]
"""The content of each file by its name, and True for one that can be executed."""


def write_artifact(root: Path, file: Path, *, title: str, tell: Notify, warn: Notify) -> int:
    """Write the archive for the records in ``root``; return the number of claims.

    ``title`` names the set. Raises `UsageError` outside of a git checkout."""
    source = head()
    judged = [*assessments(RecordStore(root, warn=warn), tell=tell)]
    text = markdown(judged, source, title=title)
    files: dict[str, tuple[bytes, bool]] = {
        "appendix.md": (text.encode(), False),
        "appendix.html": (html(text).encode(), False),
        _SCRIPT: ((TEMPLATES / _SCRIPT).read_bytes(), True),
        f"results/{archive.CLAIMS}": (claims_json(judged).encode(), False),
    }
    tell("records")
    place = archive.readable(root)
    for path in archive.records(place):
        for each in sorted(path.parent.iterdir()):
            if each.is_file():
                name = each.relative_to(place).as_posix()
                files[f"results/{name}"] = (each.read_bytes(), False)
    tell("source")
    files |= dict(_tree(source.commit))
    files[SUMS] = (_sums(files), False)
    tell("archive")
    _write(files, file, source.unix_s)
    return sum(len(item.claims) for item in judged)


def head() -> Source:
    """Return the commit of this checkout; raise `UsageError` outside of one."""
    try:
        if Path(_git("rev-parse", "--show-toplevel").decode().strip()) != ROOT:
            raise ValueError("it lies inside another checkout")
        commit, unix_s = _git("show", "-s", "--format=%H %ct", "HEAD").decode().split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"the source of the archive is a commit, and {ROOT} is not a git checkout",
            remedy="clone the repository and give the command there",
        ) from error
    date = datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%d")
    return Source(commit=commit, date=date, unix_s=int(unix_s))


def _git(*words: str) -> bytes:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, timeout=_DEADLINE_S
    ).stdout


def _tree(commit: str) -> Iterator[tuple[str, tuple[bytes, bool]]]:
    """Yield every file of a commit, as ``source/...``."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as tree:
        for entry in tree:
            if (content := tree.extractfile(entry)) is not None:
                yield f"source/{entry.name}", (content.read(), bool(entry.mode & 0o100))


def _sums(files: Files) -> bytes:
    """Return the checksums of files, in the form of ``sha256sum``."""
    lines = (f"{sha256(content).hexdigest()}  {name}\n" for name, (content, _) in files.items())
    return "".join(sorted(lines, key=lambda line: line[66:])).encode()


def _write(files: Files, file: Path, unix_s: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    with (
        partial.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=unix_s, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, (content, executable) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{NAME}/{name}")
            entry.size, entry.mtime = len(content), unix_s
            entry.mode = 0o755 if executable else 0o644
            tar.addfile(entry, io.BytesIO(content))
    partial.rename(file)
