"""Results of another machine, as somebody contributes them: what they must be to be taken.

A contribution is one directory, ``results/contributed/NAME``, with ``records`` as a run wrote them.
Nothing is judged here by its numbers: a set that differs is as welcome as one that agrees.

Tests: ``tests/results/test_contribution.py``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from harness.results.archive import records
from harness.results.provenance import ROOT
from harness.results.record import OK, decode

CONTRIBUTED = ROOT / "results" / "contributed"
LARGEST_BYTES = 20_000_000
ALLOWED = ("README.md", "records", "report/claims.json")
"""Files and folders of a contribution; pages and figures are made from these."""


def problems(root: Path) -> Iterator[str]:
    """Yield every reason why a directory cannot be taken as a contribution."""
    files = [path for path in root.rglob("*") if path.is_file()]
    for path in files:
        name = path.relative_to(root).as_posix()
        if not any(name == allowed or name.startswith(f"{allowed}/") for allowed in ALLOWED):
            yield f"{name}: only {', '.join(ALLOWED)} belong to a contribution"
    if (size := sum(path.stat().st_size for path in files)) > LARGEST_BYTES:
        yield f"{size / 1e6:.0f} MB, at most {LARGEST_BYTES / 1e6:.0f} are taken: leave out series"
    found = list(records(root))
    if not found:
        yield "there is no record: copy the folder records of your results directory here"
    runs: set[str] = set()
    for path in found:
        yield from (f"{path.relative_to(root)}: {what}" for what in _wrong(path, runs))


def _wrong(path: Path, runs: set[str]) -> Iterator[str]:
    """Yield what is wrong with one record; ``runs`` are those seen before, with this one after."""
    try:
        record = decode(json.loads(path.read_text()))
    except (ValueError, UsageError) as error:
        yield f"it cannot be read: {error}"
        return
    place = "/".join(path.parts[-5:-3])
    if record.experiment != place or record.run != path.parent.name:
        yield f"it is run {record.run} of {record.experiment}: records stay where a run put them"
    if record.run in runs:
        yield f"run {record.run} is there twice"
    runs.add(record.run)
    if record.commit.endswith("+"):
        yield f"it was measured with changed files ({record.commit}): measure with a commit's code"
    if record.status == OK and not record.machine:
        yield "it names no machine"
