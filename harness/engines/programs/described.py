"""An engine that a YAML file describes: commands, and no code in this tree.

docs/own-engine.md explains the fields; docs/examples has a whole engine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from harness.cache import cache_directory, locked, to_stderr
from harness.cluster.base import Cluster, ClusterSpec
from harness.engines.base import ClusterNeeds, Engine, EngineKind, Guarantee, Setup
from harness.engines.programs.engine import ProgramKind
from harness.engines.programs.start import READY, READY_WITHIN_S, Job, Start
from harness.errors import EnvironmentFailure, UsageError
from harness.text import read_given
from harness.yaml_files import Entry, Word, decode, parse_yaml
from workloads.base import TASKS, Workload
from workloads.files import load_file

SUFFIXES = (".yaml", ".yml")
PREPARED_WITHIN_S = 1800.0
_LAST_LINES = 6
SCHEME = "own"
"""The scheme of an engine that knows one way to survive."""
KIND = "ENGINE"
"""The name in a Python file that holds an `EngineKind`."""
_EXAMPLE = "docs/own-engine.md shows a whole file"


class Description(Entry):
    """The fields of the file."""

    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]*$")]
    """Lower-case letters, digits and dashes, a letter first."""
    command: Annotated[list[str], Meta(min_length=1)]
    """Runs on each node. ``{here}`` is the file's directory, ``{cache}`` a directory for what this
    engine fetches, ``{python}`` this Python, ``{node}`` and ``{rack}`` the node's names."""
    prepare: list[str] = msgspec.field(default_factory=list)
    """Runs once on the harness's machine before the first start, to fetch or to compile."""
    summary: str = "an engine of one's own"
    workloads: list[str] = msgspec.field(default_factory=list)
    """Names of the workloads that it can run; empty: every one with the form."""
    form: str = TASKS
    """The form that a workload must have (`Workload.forms`)."""
    ready: str = READY
    ready_within_s: float = READY_WITHIN_S
    stop_within_s: float = 10.0
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    """Its promise, which every figure with this engine judges."""
    env: dict[str, Word] = msgspec.field(default_factory=dict)
    nodes: int = 1
    """Fewest nodes that it needs."""


class DescribedKind(ProgramKind):
    """An engine from a file."""

    schemes: ClassVar[Mapping[str, ClusterNeeds]]

    def __init__(self, description: Description, here: Path) -> None:
        """Take the fields of a file in the directory ``here``."""
        self.name, self.summary = description.name, description.summary
        self.form = description.form  # type: ignore[misc] # of this file's engine alone
        self.guarantee = description.guarantee
        self.schemes = {  # type: ignore[misc]
            SCHEME: ClusterNeeds(summary="its own way", nodes=description.nodes)
        }
        self._description, self._here = description, here

    def start(self, job: Job, cluster: Cluster) -> Start:
        own = self._description
        words = {**self._words(), "node": job.node.name, "rack": job.node.rack}
        return Start(
            command=[_filled(part, words) for part in own.command],
            env={name: _filled(value, words) for name, value in own.env.items()},
            ready=re.compile(own.ready),
            ready_within_s=own.ready_within_s,
            stop_within_s=own.stop_within_s,
        )

    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[Engine]:
        """Prepare what the programs need, then open; raises `EnvironmentFailure` if it fails."""
        if command := [_filled(part, self._words()) for part in self._description.prepare]:
            with locked(f"engine-{self.name}", report=to_stderr):
                _prepare(self.name, command)
        return super().open(setup, cluster)

    @property
    def files(self) -> Sequence[Path]:
        """The files that its commands name: a change of one is a change of the engine."""
        own = self._description
        words = [_filled(part, self._words()) for part in (*own.command, *own.prepare)]
        named = [Path(word) for word in words if self._here in Path(word).parents]
        return sorted({path for path in named if path.is_file()})

    def _words(self) -> dict[str, str]:
        cache = cache_directory() / "engines" / self.name
        return {"here": str(self._here), "cache": str(cache), "python": sys.executable}

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        own = self._description.workloads
        if (reason := super().lacks(setup, workload, spec)) is not None:
            return reason
        if own and workload.name not in own:
            return f"{self.name} runs {', '.join(own)}, and not workload {workload.name!r}"
        return None


def _prepare(name: str, command: Sequence[str]) -> None:
    """Run a command to its end; Ctrl-C ends it, too."""
    to_stderr(f"preparing engine {name}: {' '.join(command)}")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=PREPARED_WITHIN_S, check=False,
        )  # fmt: skip
        what, said = f"with exit code {done.returncode}", done.stderr or done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        what, said = f"({error})", ""
    else:
        if done.returncode == 0:
            return
    last = "".join(f"\n    {line}" for line in said.splitlines()[-_LAST_LINES:])
    raise EnvironmentFailure(
        f"engine {name} could not be prepared: {command[0]} failed {what}{last}",
        remedy="see to it that what it fetches can be reached, then start again",
    )


def engine_of_file(path: Path) -> EngineKind:
    """Return the engine that a YAML file describes, or that a Python file defines as `KIND`.

    Raises `UsageError` with the mistake in it."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}", remedy=f"give its path; {_EXAMPLE}")
    if path.suffix == ".py":
        kind = getattr(load_file(path), KIND, None)
        if not isinstance(kind, EngineKind):
            raise UsageError(
                f"{path} defines no {KIND}",
                remedy=f"write {KIND} = MyKind(), an instance of a subclass of EngineKind",
            )
        return kind
    document = parse_yaml(read_given(path, "", _EXAMPLE), name=str(path), remedy=_EXAMPLE)
    own = decode(Description, document, name=str(path), remedy=_EXAMPLE)
    try:
        re.compile(own.ready)
    except re.error as error:
        raise UsageError(
            f"{path}: ready is no regular expression: {error}", remedy="correct it"
        ) from error
    here = path.resolve().parent
    first = _filled(own.command[0], {"here": str(here), "python": sys.executable})
    if "{" not in first and not shutil.which(first):
        raise UsageError(
            f"{path}: there is no program {first!r}", remedy="install it, or give its whole path"
        )
    return DescribedKind(own, here)


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text
