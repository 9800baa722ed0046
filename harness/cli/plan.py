"""``faultline plan``: the tasks of a user's topology that should be replicated."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import PATH
from harness.cli.output import json_option, show
from harness.errors import UsageError
from harness.planning.planners import BY_NAME, Decides, names, planner
from harness.text import nearest, read_given

if TYPE_CHECKING:
    from harness.planning.base import ReplicationPlan
    from harness.topology.model import Topology

_EPILOG = """\b
The topology, in YAML (docs/examples/topology.yaml):
  operators:
    - {name: vehicles, parallelism: 4, rate: [100, 100, 50, 50]}  # a source: tuples/s per task
    - {name: speed, parallelism: 2, selectivity: 0.5, cost: 2}    # output per input tuple; units per task
    - {name: jam, parallelism: 2, join: true}                     # correlated inputs
  edges:
    - {from: vehicles, to: speed, partitioning: merge}            # one-to-one, split, merge, full
    - {from: speed, to: jam, partitioning: one-to-one}
  queries:                                                        # optional: sinks and priorities
    - {name: alarms, sink: jam, priority: 1}

\b
Merge and split connect contiguous blocks of tasks; full connects all, by the weights of the
downstream operator (equal if it has none). If a rate is one number, every task has it.

\b
The budget: 6 is six units; 0.5 or 50% is half of the total cost, rounded down; "1" is one unit,
"1.0" and "100%" are everything.

\b
Examples:
  ./faultline plan docs/examples/topology.yaml --budget 50%
  ./faultline plan docs/examples/topology.yaml --budget 6 --planner optimum --draw plan.svg
  ./faultline plan docs/examples/topology.yaml --budget 0.3 --objective ic --json
"""  # noqa: E501
_FIRST_NOTE_S, _NOTE_S = 2.0, 10.0
_PLANNERS = "|".join(names(Decides.REPLICATION))


@click.command("plan", epilog=_EPILOG)
@click.argument("topology", type=PATH, metavar="TOPOLOGY.yaml")
@click.option(
    "--budget", required=True, metavar="R", help="Resource units, or a fraction of the total cost."
)
@click.option(
    "--planner",
    "planner_name",
    default="sa",
    metavar=f"[{_PLANNERS}]",
    help=" ".join(f"{name}: {BY_NAME[name].about}." for name in names(Decides.REPLICATION)),
)
@click.option(
    "--objective", default="of", metavar="[of|ic]", help="Output fidelity or internal completeness."
)
@click.option(
    "--draw",
    type=PATH,
    metavar="FILE",
    help="Draw the topology with the replicated tasks marked (.svg or .png).",
)
@json_option
def command(
    topology: Path, budget: str, planner_name: str, objective: str, draw: Path | None, as_json: bool
) -> None:
    """Choose the tasks that get an active replica.

    The plan is for the worst case: a correlated failure of every task outside it. Its output
    fidelity is the share of the queries' output that is left then."""
    if draw is not None and draw.suffix not in (".svg", ".png"):
        raise UsageError(
            f"--draw: {draw} is neither SVG nor PNG", remedy="name a file that ends in .svg or .png"
        )
    chosen = planner(planner_name)
    check_objective(objective)
    model = read_topology(topology)
    units = parse_budget(budget, model.total_cost)
    document = _planned(model, chosen.name, units, objective)
    if draw is not None:
        _draw(model, document, draw)
    show(document, _report(model, document), as_json=as_json)


def check_objective(objective: str) -> None:
    """Raise `UsageError` unless ``objective`` is one."""
    names = {"output fidelity": "of", "internal completeness": "ic", "of": "of", "ic": "ic"}
    if objective in names.values():
        return
    near = nearest(objective.lower(), names)
    raise UsageError(
        f"--objective: there is no objective {objective!r}",
        remedy=(f"did you mean {names[near]!r}? " if near else "")
        + "The choices are 'of' (output fidelity) and 'ic' (internal completeness)",
    )


_EXACT = Context(prec=1000)
"""Enough digits for any budget that is typed; Python's own context keeps 28."""


def parse_budget(text: str, total: int) -> int:
    """Return the units of a budget: ``"6"``, or a part of ``total`` (``"0.5"``, ``"50%"``).

    Fractions are rounded down.
    Raises `UsageError` for anything else, and for more than ``total``."""
    given = text.strip()
    if re.fullmatch(r"[+-]?\d+", given):
        units = Decimal(given)
    elif re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)", given):
        units = _EXACT.multiply(Decimal(given), Decimal(total))
    elif re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)\s*%", given):
        units = _EXACT.multiply(Decimal(given.rstrip("% ")), Decimal(total).scaleb(-2))
    else:
        raise UsageError(
            f"--budget: {text!r} is not a budget",
            remedy="give units (6), a fraction (0.5) or a percentage (50%)",
        )
    if not 0 <= units <= total:
        what = "is negative" if units < 0 else f"is beyond the total cost of {total} units"
        raise UsageError(
            f"--budget: {text} {what}", remedy=f"give 0 to {total} units, or 0% to 100%"
        )
    return int(units.to_integral_value(rounding=ROUND_FLOOR))


def read_topology(path: Path, option: str = "") -> Topology:
    """Read a topology; ``option`` begins the message of a mistake."""
    from harness.topology.text import from_yaml_text

    text = read_given(
        path, option, "give the path of a topology in YAML, such as docs/examples/topology.yaml"
    )
    return from_yaml_text(text, name=str(path))


def _planned(topology: Topology, name: str, budget: int, objective: str) -> dict[str, Any]:
    """Return the document of ``--json``."""
    from harness.topology.fidelity import Objective

    aim, size = Objective(objective), f"{topology.task_count:,} tasks, {budget:,} units"

    def planned(by: str, doing: str) -> ReplicationPlan:
        return _watched(lambda: planner(by).plan(topology, budget, aim), by, f"{doing} ({size})")

    started = perf_counter()
    plan = planned(name, "planning")
    seconds = perf_counter() - started
    others = [
        (other, planned(other, "planning for comparison"))
        for other in ("sa", "greedy")
        if other != name
    ]
    other, best = max(others, key=lambda pair: pair[1].value)
    return {
        "planner": name,
        "objective": objective,
        "budget": budget,
        "total_cost": topology.total_cost,
        **_described(topology, plan),
        "optimum": plan.bound,
        "compared_with": {"planner": other, **_described(topology, best)},
        "seconds": seconds,
    }


def _watched(
    plan: Callable[[], ReplicationPlan], name: str, doing: str = "planning"
) -> ReplicationPlan:
    """Run ``plan`` on a thread of its own, and report every few seconds that it is still running.

    The thread is needed because the solver does not react to Ctrl-C."""
    future: Future[ReplicationPlan] = Future()

    def work() -> None:
        try:
            future.set_result(plan())
        except BaseException as error:
            future.set_exception(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    started, patience_s = perf_counter(), _FIRST_NOTE_S
    while thread.is_alive():
        thread.join(patience_s)
        if thread.is_alive():
            limit = "; gives the best plan and a bound after 60 s" if name == "optimum" else ""
            waited = f"{perf_counter() - started:.0f} s"
            click.echo(f"{name}: {doing} for {waited}{limit}", err=True)
            patience_s = _NOTE_S
    return future.result()


def _described(topology: Topology, plan: ReplicationPlan) -> dict[str, Any]:
    from harness.topology.fidelity import Evaluator, internal_completeness

    alive = plan.alive(topology)
    evaluator = Evaluator(topology)
    by_query = evaluator.by_query(alive)[0]
    return {
        "plan": [list(topology.place(task)) for task in plan.tasks],
        "cost": plan.cost,
        "output_fidelity": evaluator.value(alive),
        "internal_completeness": float(internal_completeness(topology, alive)[0]),
        "queries": {
            query.name: float(value)
            for query, value in zip(topology.queries, by_query, strict=True)
        },
    }


def _report(topology: Topology, document: dict[str, Any]) -> list[str]:
    by_operator: dict[str, list[int]] = {}
    for name, index in document["plan"]:
        by_operator.setdefault(name, []).append(index)
    width = max(map(len, by_operator), default=0)
    tasks = [
        f"{name:{width}}  {' '.join(map(str, indexes))}  of {topology.operator(name).parallelism}"
        for name, indexes in by_operator.items()
    ] or ["nothing: no complete tree of tasks is worth its cost within the budget"]
    key = "output_fidelity" if document["objective"] == "of" else "internal_completeness"
    word = key.replace("_", " ")
    other = document["compared_with"]
    better = ", which is better" if other[key] > document[key] else ""
    used = f"{document['budget']} of {document['total_cost']} units, {document['cost']} used"
    rows = [
        ("planner", f"{document['planner']}, in {document['seconds']:.3g} s"),
        ("budget", used),
        ("replicated tasks", tasks[0]),
        *(("", more) for more in tasks[1:]),
        ("output fidelity", f"{document['output_fidelity']:.4f}"),
    ]
    if len(document["queries"]) > 1:
        rows += [(f"  of {name}", f"{value:.4f}") for name, value in document["queries"].items()]
    rows.append(("internal completeness", f"{document['internal_completeness']:.4f}"))
    if document["optimum"] is not None:
        rows.append(("no plan exceeds", f"{document['optimum']:.4f} ({word}, proven)"))
    rows.append(("compared with", f"{other['planner']}, {word} {other[key]:.4f}{better}"))
    return [f"{name:22}{value}" for name, value in rows]


def _draw(topology: Topology, document: dict[str, Any], path: Path) -> None:
    import numpy as np

    from harness.figures.style import new_figure, styled
    from harness.figures.topology import draw_topology, size_in

    alive = np.zeros(topology.task_count, dtype=bool)
    for name, index in document["plan"]:
        alive[topology.task(name, index)] = True
    title = (
        f"{document['planner']}, budget {document['budget']} of {document['total_cost']} units: "
        f"output fidelity {document['output_fidelity']:.3f}"
    )
    with styled():
        figure = new_figure(size_in(topology))
        draw_topology(topology, alive, figure, title=title)
        try:
            figure.savefig(path)
        except OSError as error:
            raise UsageError(
                f"--draw: {path} cannot be written: {error.strerror}",
                remedy="name a file in a directory that exists and is yours",
            ) from None
