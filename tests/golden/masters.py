"""Golden masters: what the code made of fixed inputs before a change, as digests by name.

A master is a text: the verdicts of a campaign that ships, a table as CSV, the kills of a run, the
trace of a seed, the values of a smoke run. ``digests/KIND.txt`` has a line per master. The tests
compare the digests; a change that is meant is explained in its commit, which renews them::

    .venv/bin/python -m tests.golden.masters                     compare everything (minutes)
    .venv/bin/python -m tests.golden.masters --texts DIR         write the texts, to diff revisions
    .venv/bin/python -m tests.golden.masters --write verdicts    renew the digests of a kind

Numbers have nine digits: the last ones depend on the processor's vector instructions."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pandas as pd

from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.kills import kills_of
from harness.pages.walk import assessments
from harness.protocol.schemes import SCHEMES
from harness.results.library import SHIPPED
from harness.results.record import Profile, plain
from harness.results.store import RecordStore
from harness.running.computed import RunResult, Task, make
from harness.running.discovery import all_experiments
from harness.seeds import DEFAULT_SEED
from tests.engines.tasks.virtual.trace_of_seed import trace as host_trace
from tests.simulator.trace_of_seed import trace as protocol_trace

DIGESTS = Path(__file__).parent / "digests"
SEEDS = range(20)

NO_MASTERS = frozenset(
    {"milliseconds", "median_ms", "batch_cpu_s", "checkpoint_cpu_s"}  # times of this machine
    | {"best", "bound", "finished", "proven_share"}  # what a solver found in a given time
)
"""Values and columns of computed runs that depend on how fast and how busy this machine is."""

Master = tuple[str, str]
"""Name and text."""


@cache
def shipped() -> tuple[Assessment, ...]:
    """Return every campaign that ships, judged."""
    return tuple(assessments(RecordStore(SHIPPED, warn=_refuse)))


def _refuse(text: str) -> None:
    raise AssertionError(f"a record that ships cannot be read: {text}")


def verdicts() -> Iterator[Master]:
    """Yield the verdicts of every campaign that ships."""
    for name, item in _named(shipped()):
        yield name, _json(item.documents())


def tables() -> Iterator[Master]:
    """Yield every table of every campaign that ships."""
    for name, item in _named(shipped()):
        for table, frame in item.tables().items():
            yield f"{name} {table or 'table'}", _csv(frame)


def _named(items: Iterable[Assessment]) -> Iterator[tuple[str, Assessment]]:
    for item in items:
        backends = "+".join(item.campaign.backends)
        yield f"{item.experiment.id} {item.profile.value} {backends or '-'}", item


def kills() -> Iterator[Master]:
    """Yield what every run that ships says about its kills."""
    store = RecordStore(SHIPPED, warn=_refuse)
    for experiment in all_experiments():
        if experiment.origin is not Origin.MEASURED or experiment.name:
            continue
        for stored in store.read(experiment.id):
            rows = [
                {
                    **{each: getattr(kill, each) for each in _OF_A_KILL},
                    "phases": [
                        [each.name, each.from_s, each.until_s, each.open, each.why_not]
                        for each in kill.phases
                    ],
                    "events": [[each.when, each.words] for each in kill.happenings],
                    "windows": _csv(kill.windows),
                }
                for kill in kills_of(stored, experiment)
            ]
            if rows:
                yield f"{experiment.id} {stored.record.run}", _json(rows)


_OF_A_KILL = ("variant", "action", "target", "nodes", "at_s", "facts", "facets")


def protocol() -> Iterator[Master]:
    """Yield the traces of every scheme in the protocol's simulator."""
    for scheme in SCHEMES:
        for seed in SEEDS:
            yield of_seed(scheme, seed, protocol_trace)


def host() -> Iterator[Master]:
    """Yield the traces of every scheme on the virtual host."""
    for scheme in SCHEMES:
        for seed in SEEDS:
            yield of_seed(scheme, seed, host_trace)


def of_seed(scheme: str, seed: int, trace: Callable[[int, str], str]) -> Master:
    """Return the master of a seed: its trace, in which an exception has no files and lines."""
    return f"{scheme} {seed}", _FRAMES.sub("", trace(seed, scheme))


_FRAMES = re.compile(
    r"(?:Traceback \(most recent call last\):(?:\\n|\n))?"
    r"(?: *File \".*?(?:\\n|\n)(?:    .*?(?:\\n|\n))*)+"
)
"""The frames of a traceback, also within the ``repr`` of a text."""


def smoke() -> Iterator[Master]:
    """Yield the values of every computed or simulated run of the smoke profile."""
    for experiment in all_experiments():
        if experiment.origin is Origin.MEASURED or experiment.name:
            continue
        for point in experiment.grid[Profile.SMOKE]:
            for repeat in range(experiment.measurement.repeats[Profile.SMOKE]):
                task = Task(
                    experiment=experiment.id,
                    point=point,
                    profile=Profile.SMOKE,
                    root_seed=DEFAULT_SEED,
                    repeat=repeat,
                    options={},
                    directory=Path(),
                )
                yield of_run(experiment.measurement.id, task, make(task))


def of_run(measurement: str, task: Task, made: RunResult) -> Master:
    """Return the master of a computed or simulated run: its values and series, without times."""
    assert made.outcome is not None, made.why
    values = {name: value for name, value in made.outcome.values.items() if name not in NO_MASTERS}
    series = {
        name: _csv(frame.drop(columns=[*NO_MASTERS & {*frame}]))
        for name, frame in made.outcome.series.items()
        if task.point.get("engine") != "this machine"  # ratios of its times
    }
    status = {name: getattr(made.outcome, name) for name in ("invalid", "again", "skipped")}
    name = f"{measurement} {json.dumps(task.point, default=plain)} {task.repeat}"
    return name, _json({**status, "values": values, "series": series})


def _csv(frame: pd.DataFrame) -> str:
    return frame.to_csv(float_format="%.9g")


def _json(value: Any) -> str:
    plainly = json.loads(json.dumps(value, default=plain))
    return json.dumps(_rounded(plainly), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _rounded(value: Any) -> Any:
    """Return a value with nine digits in every number that has a fraction."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return value


KINDS: Mapping[str, Callable[[], Iterable[Master]]] = {
    each.__name__: each for each in (verdicts, tables, kills, protocol, host, smoke)
}


def digest(text: str) -> str:
    """Return the digest of a text, as in the files."""
    return sha256(text.encode()).hexdigest()[:16]


@cache
def recorded(kind: str) -> Mapping[str, str]:
    """Return the digests of a kind by the name of their master."""
    lines = (DIGESTS / f"{kind}.txt").read_text().splitlines()
    return {name: found for found, _, name in (line.partition(" ") for line in lines)}


RENEW = (
    "if this is meant, say why in the commit and renew the digests: "
    ".venv/bin/python -m tests.golden.masters KIND --write"
)
"""The next step where a master differs; ``KIND`` stands before the colon of a difference."""


def differing(kind: str, masters: Iterable[Master], *, whole: bool = True) -> list[str]:
    """Return what differs from the recorded digests: a line for each master.

    ``whole``: the masters are all of their kind, so that a recorded one without a text is named."""
    before, seen, found = recorded(kind), set(), []
    for name, text in masters:
        seen.add(name)
        if name not in before:
            found.append(f"{kind}: {name} is new")
        elif before[name] != digest(text):
            found.append(f"{kind}: {name} differs")
    gone = sorted({*before} - seen) if whole else []
    return [*found, *(f"{kind}: {name} is gone" for name in gone)]


def _write(kind: str) -> None:
    lines = [f"{digest(text)} {name}\n" for name, text in KINDS[kind]()]
    DIGESTS.mkdir(exist_ok=True)
    (DIGESTS / f"{kind}.txt").write_text("".join(lines))


def _texts(kind: str, into: Path) -> None:
    for name, text in KINDS[kind]():
        file = into / kind / (name.replace("/", "-").replace(" ", "_")[:200] + ".txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice([*KINDS]))
@click.option("--write", is_flag=True, help="Renew the digests.")
@click.option("--texts", type=click.Path(path_type=Path), help="Folder for every text as a file.")
def main(kinds: Sequence[str], write: bool, texts: Path | None) -> None:
    """Compare the masters of these KINDS, or of all, with their digests."""
    differences = []
    for kind in kinds or KINDS:
        click.echo(kind, err=True)
        if texts is not None:
            _texts(kind, texts)
        elif write:
            _write(kind)
        else:
            differences += differing(kind, KINDS[kind]())
    for line in differences:
        click.echo(line)
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
