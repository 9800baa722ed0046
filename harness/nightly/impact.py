"""The records that a change voids: those whose measurement has other code than in a revision.

The revision computes its fingerprints by its own code, because that is what its records hold."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.backends import recorded_backend
from harness.errors import EnvironmentFailure
from harness.nightly.sampling import Side
from harness.results.library import Library
from harness.results.reach import reached_files
from harness.running.code import code_of, names_of, roots_of
from harness.running.discovery import all_experiments

Measured = tuple[str, str]
"""A measurement and the kind of cluster that it ran on; empty where no server runs."""
_DEADLINE_S = 600
_FINGERPRINTS = """
import json, sys
from harness.cluster.backends import recorded_backend
from harness.running.code import code_of
from harness.running.discovery import all_experiments

known = {each.measurement.id: each.measurement for each in all_experiments()}
print(json.dumps([
    code_of(known[name], recorded_backend(backend)) if name in known else None
    for name, backend in json.load(sys.stdin)
]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The void records of one measurement."""

    experiment: str
    records: int
    """Number of void records; 0 if it has none here."""
    of: int
    """Number of its records."""
    seconds: float
    """The time that the void records took to measure."""
    changed: Sequence[str]
    """The changed files that its code reaches."""


def impact(before: Side, library: Library, changed: Collection[str]) -> Sequence[Impact]:
    """Return the measurements whose code differs from that of another tree, the longest first.

    ``changed`` are the files that differ from it. Raises `EnvironmentFailure` if that tree does not
    run."""
    runs = [each.record for each in library.found]
    known = {each.measurement.id: each.measurement for each in all_experiments()}
    recorded = {(run.experiment, run.backend) for run in runs}
    others = {(name, "") for name in known} - {(name, "") for name, _ in recorded}
    pairs = sorted(recorded | others)
    then = fingerprints(before, pairs)
    now = {
        (name, backend): code_of(known[name], recorded_backend(backend)) if name in known else None
        for name, backend in pairs
    }
    void = {pair for pair in pairs if then[pair] != now[pair]}
    found = []
    for experiment in sorted({name for name, _ in void}):
        own = [run for run in runs if run.experiment == experiment]
        lost = [run for run in own if (experiment, run.backend) in void]
        files: set[str] = set()
        for name, backend in void:
            if name == experiment and name in known:
                kind = recorded_backend(backend)
                files |= reached_files(roots_of(known[name], kind), names_of(known[name]))
        found.append(
            Impact(
                experiment=experiment,
                records=len(lost),
                of=len(own),
                seconds=sum(run.seconds for run in lost),
                changed=sorted(files.intersection(changed)),
            )
        )
    return sorted(found, key=lambda each: -each.seconds)


def fingerprints(side: Side, pairs: Sequence[Measured]) -> Mapping[Measured, str | None]:
    """Return the code of measurements in a tree; None for those that it lacks."""
    done = subprocess.run(
        [side.python, "-P", "-c", _FINGERPRINTS],
        cwd=side.root,
        env={**os.environ, "PYTHONPATH": str(side.root)},
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        check=False,
        timeout=_DEADLINE_S,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise EnvironmentFailure(
            f"the code of the measurements cannot be computed in {side.name}: {last[0]}",
            remedy="compare with a newer revision",
        )
    return dict(zip(pairs, json.loads(done.stdout), strict=True))
