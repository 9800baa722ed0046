"""``faultline simulate``: random fault schedules in virtual time, with every invariant checked."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import FILE
from harness.cli.output import json_option, show
from harness.errors import UsageError
from harness.protocol.schemes import SCHEMES
from harness.text import did_you_mean, format_duration

if TYPE_CHECKING:
    from harness.simulator.campaign import Choice, Tally
    from harness.simulator.run import SimulatedRun

_EPILOG = f"""\b
Schemes:    {" ".join(SCHEMES)}
Topologies: chain diamond join full borealis recovery random

\b
Faults, each for a while:
  kill, rack, late          a node or a rack is killed; a node starts late
  forget                    a node loses its copies, but its process lives
  freeze, busy, drift       a node is frozen, computes slowly, or has a fast clock
  cut, link, mute           a node, or the link between two, loses all messages, or those one way
  weather                   some of all messages are lost, repeated or reordered
  raise                     a node's operators raise errors
  store-away, store-full    the checkpoint store is away, or has no room
  log-away                  the log is away
  coordinator, rival        the coordinator is killed; a second one starts
  replan                    no fault: the plan of replicas changes

With --host, the engine's own processes run instead, and connections, Kafka and Redis fail: cut in
one direction or both, reset, a byte a second, wrong bits, silent, full, slow, refusing, lossy; a
machine loses its power, or its wall clock steps. Some of these faults end a run with a message, as
they should: input that is deleted while it is due, data that is damaged for good.
Topologies there: chain diamond full join

\b
Examples:
  ./faultline simulate
  ./faultline simulate --seeds 1..10000 --scheme ppa
  ./faultline simulate --seeds 42..42 --scheme dpc --topology diamond
  ./faultline simulate --draw 42 --scheme ppa
  ./faultline simulate --host --seeds 1..100
"""
_LINE_INTERVAL_S = 10.0
_IN_PLACE = "\r\x1b[K"


@click.command(epilog=_EPILOG)
@click.option("--seeds", default="0..999", metavar="A..B", help="Both ends included.")
@click.option("--scheme", metavar="NAME", help="Only this scheme.  [default: each seed draws one]")
@click.option(
    "--topology", metavar="NAME", help="Only this topology.  [default: each seed draws one]"
)
@click.option("--faults", metavar="N,N", help="Only these faults of each schedule, counted from 0.")
@click.option("--workers", type=click.IntRange(1), help="Processes.  [default: one per core]")
@click.option(
    "--host",
    is_flag=True,
    help="Run the task engine's processes whole, over models of TCP, Kafka and Redis.",
)
@click.option("--draw", "draw_seed", type=int, metavar="SEED", help="Draw one run, and its faults.")
@click.option(
    "--picture", type=FILE, help="File for the picture of --draw.  [default: simulate-SEED.png]"
)
@json_option
def command(
    seeds: str,
    scheme: str | None,
    topology: str | None,
    faults: str | None,
    workers: int | None,
    host: bool,
    draw_seed: int | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Try the protocols under random failures, in virtual time.

    Each seed is a schedule: a topology, a scheme with its intervals and policies, a network, and
    three to eight faults in thirty batches. Many seeds add more faults, such as nodes that start
    late. When everything has healed, the stable output must equal that of a run without failures,
    and every invariant must have held on the way.

    A schedule that breaks an invariant is reduced to the faults that matter and printed with the
    events that led to it. The exit code is then 1."""
    from harness.simulator.campaign import PROTOCOL, Choice, tally_of

    if host and draw_seed is not None:
        raise UsageError("--host does not go with --draw", remedy="leave one of them out")
    fidelity = PROTOCOL
    if host:
        from harness.engines.tasks.virtual.run import HOST

        fidelity = HOST
    _check_among("scheme", scheme, SCHEMES)
    _check_among("topology", topology, fidelity.topologies)
    choice = Choice(
        seeds=_seed_range(seeds) if draw_seed is None else range(draw_seed, draw_seed + 1),
        scheme=scheme,
        topology=topology,
        faults=_fault_numbers(faults),
        fidelity=fidelity,
    )
    if draw_seed is not None:
        _draw(choice, picture, as_json)
        return
    tally = tally_of(choice, workers or os.cpu_count() or 1, _progress(len(choice.seeds)))
    violations = [_violation(choice, report) for report in tally.failed[:10]]
    document = {
        "schedules": tally.schedules,
        "faults": dict(sorted(tally.faults.items())),
        "violations": violations,
        "violations_total": len(tally.failed),
        "violating_seeds": [report.seed for report in tally.failed],
        "schedules_with_tentative_output": tally.tentative_schedules,
        "schedules_per_minute": tally.schedules_per_minute,
        "events": tally.events,
    }
    show(document, _lines(tally, violations), as_json=as_json)
    if tally.failed:
        sys.exit(1)


def _check_among(kind: str, name: str | None, known: Collection[str]) -> None:
    if name is not None and name not in known:
        raise UsageError(f"there is no {kind} {name!r}", remedy=did_you_mean(name, known))


def _seed_range(text: str) -> range:
    match = re.fullmatch(r"(\d+)\.\.(\d+)", text.strip())
    if match is None:
        raise UsageError(f"--seeds {text!r} is not a range", remedy="write it as 0..999")
    first, last = int(match[1]), int(match[2])
    if first > last:
        raise UsageError(
            f"--seeds {text} runs backwards", remedy=f"write the smaller one first: {last}..{first}"
        )
    return range(first, last + 1)


def _fault_numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if re.fullmatch(r"(\d+(,\d+)*)?", text) is None:
        raise UsageError(f"--faults {text!r} is not a list", remedy="write numbers: 0,3")
    return tuple(int(number) for number in text.split(",") if number)


def _progress(total: int) -> Callable[[Tally], None]:
    """Return a function that shows a line on standard error.

    It stays in place on a terminal and comes every few seconds elsewhere. A violation is named at
    once, because a campaign may take another hour."""
    last, named = time.monotonic(), 0
    terminal = sys.stderr.isatty()

    def watch(tally: Tally) -> None:
        nonlocal last, named
        for report in tally.failed[named:]:
            click.echo(f"{_IN_PLACE if terminal else ''}{_headline(report)}", err=True)
        named = len(tally.failed)
        now = time.monotonic()
        done = tally.schedules == total
        if now - last < (0.2 if terminal else _LINE_INTERVAL_S) and not (done and terminal):
            return
        last = now
        rate = tally.schedules_per_minute
        left = format_duration((total - tally.schedules) / rate * 60) if rate else "?"
        line = (
            f"{tally.schedules}/{total} schedules, {len(tally.failed)} violations, "
            f"{rate:,.0f} a minute, {left} left"
        )
        click.echo(f"{_IN_PLACE}{line}" if terminal else line, err=True, nl=not terminal or done)

    return watch


def _headline(report: SimulatedRun) -> str:
    assert report.violation is not None
    broken = report.violation
    return (
        f"seed {report.seed} ({report.scheme}, {report.topology}) violates {broken.invariant}: "
        f"{broken.what}"
    )


def _violation(choice: Choice, report: SimulatedRun) -> dict[str, Any]:
    """Return a violation with the fewest faults that cause it."""
    from harness.simulator.campaign import smallest

    assert report.violation is not None
    numbers = smallest(choice, report.seed)
    faults = choice.whole(report.seed).faults
    return {
        "seed": report.seed,
        "scheme": report.scheme,
        "topology": report.topology,
        "invariant": report.violation.invariant,
        "what": report.violation.what,
        "faults": [str(faults[number]) for number in numbers],
        "command": f"./faultline simulate{choice.fidelity.option} "
        f"--seeds {report.seed}..{report.seed} --scheme {report.scheme} "
        f"--topology {report.topology} --faults {','.join(map(str, numbers))}",
        "story": report.violation.story,
    }


def _lines(tally: Tally, violations: Sequence[dict[str, Any]]) -> Iterator[str]:
    faults = ", ".join(f"{count} {kind}" for kind, count in tally.faults.most_common())
    yield (
        f"{tally.schedules} schedules in {format_duration(tally.elapsed_s)} "
        f"({tally.schedules_per_minute:,.0f} a minute); {sum(tally.faults.values())} faults: "
        f"{faults or 'none'}; {tally.tentative_schedules} schedules had tentative output"
    )
    for found in violations:
        yield f"\nviolation of {found['invariant']} at seed {found['seed']}: {found['what']}"
        yield f"  scheme {found['scheme']}, topology {found['topology']}"
        for fault in found["faults"]:
            yield f"  fault: {fault}"
        yield f"  again: {found['command']}"
        yield found["story"]
    for report in tally.failed[len(violations) :]:
        yield f"\n{_headline(report)}"
    yield f"{len(tally.failed)} violations" if tally.failed else "no violations"


def _draw(choice: Choice, picture: Path | None, as_json: bool) -> None:
    from harness.simulator.picture import draw_run

    (seed,) = choice.seeds
    path = picture or Path(f"simulate-{seed}.png")
    if not path.parent.is_dir():
        raise UsageError(
            f"--picture {path}: there is no directory {path.parent}",
            remedy=f"make it (mkdir -p {path.parent}) or name another place",
        )
    options = choice.options(seed)
    report = draw_run(options, path)
    violation = report.violation.what if report.violation else None
    lines = [
        f"seed {seed}: scheme {options.scheme.name}, topology {options.topology}",
        *(f"  fault {number}: {fault}" for number, fault in enumerate(options.faults)),
        f"  {violation or 'no violation'}",
        str(path),
    ]
    document = {"picture": str(path), "options": options.describe(), "violation": violation}
    show(document, lines, as_json=as_json)
