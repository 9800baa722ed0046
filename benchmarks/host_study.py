"""The task engine before and after, in one run: two revisions take turns on one machine.

::

    .venv/bin/python -P -m benchmarks.host_study --before be24e964cf95
    .venv/bin/python -P -m benchmarks.host_study --before HEAD~20 --nodes 34 --only idle

Each revision has a cluster of its own (two racks of a worker each) with the engine open and warm,
both alive at the same time, and every measurement is made on both, first one then the other, the
next time the other way round. Both use this checkout's packages. A line is the median over all
passes, or kills, with the smallest and the largest.

``be24e964cf95`` is the last revision whose batches went through Kafka from task to task. The whole
takes some 12 minutes; it needs a quiet machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from harness.child import Child
from harness.errors import EnvironmentFailure, FaultlineError
from harness.nightly.revisions import build, resolve, working_tree
from harness.nightly.sampling import Side

PROGRAM = Path(__file__).with_name("host_side.py")
BEFORE = "be24e964cf95"
BATCHES_S = (0.01, 0.1, 1.0)
SCHEMES = ("active", "checkpoint")
ROUNDS, SECONDS, RATE_PER_S, NODES, KILLS, IDLE_S = 3, 8.0, 2_000.0, 6, 3, 15.0
KINDS = ("batches", "kills", "idle")
_READY_S, _ANSWER_S, _STOP_S = 300.0, 180.0, 60.0
Found = dict[tuple[str, str], list[float]]
"""(measurement, quantity) to the values of one side."""


def orders(arguments: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """Return the measurements by name, each with its order."""
    found: list[tuple[str, dict[str, Any]]] = []
    if "batches" in arguments.only:
        found += [(f"batches of {each:g} s", {"batches": each}) for each in BATCHES_S]
    if "kills" in arguments.only:
        count = arguments.kills
        found += [(f"kill, {each}", {"kills": each, "count": count}) for each in SCHEMES]
    if "idle" in arguments.only:
        found.append((f"{arguments.nodes} nodes", {"idle": IDLE_S}))
    return found


def study(sides: Mapping[str, Child], arguments: argparse.Namespace) -> dict[str, Found]:
    """Return what each side measured; a failed measurement is told and left out."""
    found: dict[str, Found] = {name: {} for name in sides}
    number = 0
    for turn in range(arguments.rounds):
        for name, order in orders(arguments):
            for side in list(sides)[:: 1 if turn % 2 == 0 else -1]:
                number += 1
                say(f"round {turn + 1} of {arguments.rounds}: {name}, {side}")
                for quantity, values in _ask(sides[side], name, {**order, "order": number}).items():
                    found[side].setdefault((name, quantity), []).extend(values)
    return found


def _ask(side: Child, name: str, order: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
    side.send(order)
    said = side.wait_for(
        name, lambda event: event.get("order") == order["order"], within_s=_ANSWER_S
    )
    if said["event"] == "failed":
        say(f"{name} failed: {said['why']}")
        return {}
    pairs = said["found"].items()
    return {key: value if isinstance(value, list) else [value] for key, value in pairs}


def lines(found: Mapping[str, Found]) -> Iterator[dict[str, object]]:
    """Yield a line per measurement, quantity and side."""
    names = dict.fromkeys(key for side in found.values() for key in side)
    for name, quantity in names:
        for side, values in found.items():
            here = values.get((name, quantity), [])
            yield {
                "measurement": name,
                "quantity": quantity,
                "side": side,
                "median": round(median(here), 3) if here else None,
                "from": round(min(here), 3) if here else None,
                "to": round(max(here), 3) if here else None,
                "values": len(here),
            }


@contextmanager
def running(sides: Sequence[Side], arguments: argparse.Namespace) -> Iterator[dict[str, Child]]:
    """Start a program for each side, one after the other; end both however this ends."""
    children: dict[str, Child] = {}
    with tempfile.TemporaryDirectory(prefix="faultline-study-") as logs:
        try:
            for side in sides:
                say(f"starting a cluster of {side.name}")
                child = children[side.name] = Child(
                    PROGRAM,
                    name=side.name,
                    log=Path(logs) / f"{len(children)}.log",
                    remedy="run ./faultline doctor, or compare with another --before",
                    # Its children look for modules there alone, and not where this was started.
                    environment={
                        **os.environ,
                        "PYTHONPATH": str(side.root),
                        "PYTHONSAFEPATH": "1",
                    },
                    python=Path(sys.executable),
                )
                child.send(
                    {
                        "nodes": arguments.nodes,
                        "seconds": arguments.seconds,
                        "rate_per_s": arguments.rate,
                    }
                )
                ready = child.wait_for(
                    "its engine", lambda event: event["event"] == "ready", within_s=_READY_S
                )
                if Path(ready["tree"]) != side.root.resolve():
                    raise EnvironmentFailure(
                        f"{side.name} imported the code of {ready['tree']}",
                        remedy="run it as a module: -m benchmarks.host_study",
                    )
            yield children
        finally:
            for child in children.values():
                child.hang_up()
            for child in children.values():
                child.stop(within_s=_STOP_S)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.host_study", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--before", default=BEFORE, metavar="REVISION")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of a pass")
    parser.add_argument("--rate", type=float, default=RATE_PER_S, help="records a second")
    parser.add_argument("--nodes", type=int, default=NODES, help="of each side, an even number")
    parser.add_argument("--kills", type=int, default=KILLS, help="kills a pass")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    chosen = parser.parse_args(arguments)
    if chosen.nodes < 4 or chosen.nodes % 2:
        parser.error("--nodes is an even number from 4 on: two racks with as many nodes each")
    return chosen


def main() -> None:
    arguments = parsed()
    try:
        before = build(resolve(arguments.before), report=say, own_packages=False)
        with running([before, working_tree()], arguments) as sides:
            found = study(sides, arguments)
    except FaultlineError as error:
        sys.exit(f"host_study: {error}")
    for line in lines(found):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
