"""Change a parameter, see it move: functions of a few numbers that answer within a second.

Each gives a `Card`, so it can be called as it is; `sliders` puts controls above one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.advice.advise import advise
from harness.advice.evidence import FailureKind, SchemeName, evidence, fit
from harness.advice.job import Job
from harness.errors import UsageError
from harness.figures.style import BLUE, GREY, PLANNERS, SCHEMES, VERMILION, label_line_ends
from harness.intervals.rivals import RIVALS
from harness.intervals.utilization import CheckpointedSystem
from harness.notebook.cards import Card, drawing
from harness.planning.base import budget_of
from harness.planning.planners import planner
from harness.results.library import Library, load
from harness.results.record import Profile
from harness.running.computed import RunContext
from harness.running.discovery import find
from harness.seeds import DEFAULT_SEED
from harness.text import format_duration
from harness.topology import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sliders(show: Callable[..., Card], **ranges: Any) -> Any:
    """Show controls above the result of ``show``.

    ``ranges`` are ipywidgets' abbreviations, such as ``(0.1, 10.0)`` for a slider or a list for a
    choice."""
    import ipywidgets
    from IPython import display

    shown: Any = display
    controls = ipywidgets.interactive(lambda **values: shown.display(show(**values)), **ranges)
    for control in controls.children[:-1]:
        if hasattr(control, "continuous_update"):
            control.continuous_update = False
    return controls


def one_point(
    experiment: str, *, seed: int = DEFAULT_SEED, repeat: int = 0, **point: Any
) -> pd.Series[Any]:
    """Compute or simulate one point of a figure now, also one that its grid lacks.

    Returns its values. Raises `UsageError` for a figure that is measured on servers."""
    (known,) = find([experiment])
    if known.measurement.measured:
        raise UsageError(
            f"{experiment} is measured on servers, not computed",
            remedy=f"run it: ./faultline run {experiment}",
        )
    context = RunContext(
        measurement=known.measurement.id,
        profile=Profile.QUICK,
        root_seed=seed,
        repeat=repeat,
        directory=Path(),
        options={},
    )
    return pd.Series(known.measurement.run(point, context).values)


def utilization(
    cost_s: float = 5.0,
    mttf_min: float = 60.0,
    restart_s: float = 30.0,
    depth: int = 1,
    delay_s: float = 0.0,
) -> Card:
    """Utilization over the checkpoint interval, T* and the other models' intervals."""
    system = CheckpointedSystem(
        cost_s=cost_s,
        failure_rate_per_s=1.0 / (60.0 * mttf_min),
        restart_s=restart_s,
        depth=depth,
        delay_s=delay_s,
    )
    best = float(system.optimal_interval_s())

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        grid = np.geomspace(cost_s, max(best * 20, cost_s * 20), 400)
        axes.plot(grid / 60, system.utilization(grid), color=BLUE)
        axes.axvline(best / 60, color=VERMILION, linestyle="--")
        axes.annotate(
            f"T* = {format_duration(best)}: {float(system.utilization(best)):.2%}",
            (best / 60, 0.02), xytext=(4, 0), textcoords="offset points", color=VERMILION,
        )  # fmt: skip
        for name, rival in RIVALS.items():
            interval = float(rival(system))
            if interval > cost_s:
                axes.plot(interval / 60, system.utilization(interval), "o", color=GREY)
                axes.annotate(
                    name, (interval / 60, float(system.utilization(interval))), fontsize=7,
                    xytext=(3, -9), textcoords="offset points", color=GREY,
                )  # fmt: skip
        axes.set(xscale="log", ylim=(0, 1.02), ylabel="utilization")
        axes.set_xlabel("checkpoint interval (min, logarithmic)")

    return drawing(draw)


def plans(topology: str = "recovery", budget: float = 0.5) -> Card:
    """Output fidelity by budget, for two planners, on a topology of the papers."""
    model = _TOPOLOGIES[topology]()
    shares = np.linspace(0.0, 1.0, 11)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for name in ("sa", "greedy"):
            found = [planner(name).plan(model, budget_of(model, share)).value for share in shares]
            axes.plot(100 * shares, found, **PLANNERS[name].kwargs())
        chosen = planner("sa").plan(model, budget_of(model, budget))
        axes.axvline(100 * budget, color=GREY, linestyle=":")
        axes.annotate(
            f"{len(chosen.tasks)} tasks, output fidelity {chosen.value:.2f}",
            (100 * budget, chosen.value), xytext=(6, -12), textcoords="offset points", fontsize=8,
        )  # fmt: skip
        axes.set(xlim=(0, 100), ylim=(0, 1.02))
        axes.set_xlabel("budget (% of the tasks replicated)")
        axes.set_ylabel("output fidelity after a failure of everything else")
        label_line_ends(axes)

    return drawing(draw)


_TOPOLOGIES = {
    "recovery": lambda: named.recovery(1000),
    "figure 1(a), independent": lambda: named.figure_1a(join=False),
    "figure 1(a), correlated": lambda: named.figure_1a(join=True),
}


def checkpoint_recovery(
    interval_s: float = 15.0, rate: float = 2000.0, speed: float = 10_000.0
) -> Card:
    """Draw the expected recovery of one task over the rate, by the formula fitted to shipped runs.

    The band covers the place of the failure in the interval."""
    rows = evidence(load())
    found = fit(rows, SchemeName.CHECKPOINT, FailureKind.NODE)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        rates = np.linspace(0.0, speed * 0.95, 60)
        if found is not None:
            ends = [
                [found.predict(each * share * interval_s / speed, 0.0) for each in rates]
                for share in (0.0, 0.5, 1.0)
            ]
            axes.fill_between(rates, ends[0], ends[2], color=BLUE, alpha=0.15)
            axes.plot(rates, ends[1], color=BLUE, label="expected")
            here = found.predict(rate * interval_s / 2 / speed, 0.0)
            axes.plot([rate], [here], "o", color=VERMILION)
            axes.annotate(
                format_duration(here), (rate, here), xytext=(5, 5), textcoords="offset points"
            )
        mine = rows[rows["scheme"].eq(SchemeName.CHECKPOINT) & rows["failure"].eq(FailureKind.NODE)]
        look = SCHEMES["checkpoint"]
        axes.plot(
            mine["rate"], mine["recovery_s"], look.marker, color=look.color, markersize=4,
            linestyle="none",
        )  # fmt: skip
        axes.set_xlabel("tuples/s into the task")
        axes.set_ylabel("recovery (s), without detection")
        axes.set_title("formula (band: where in the interval) and simulated runs (points)")

    return drawing(draw)


def advice(
    rate: float = 20_000.0,
    state_gb: float = 4.0,
    node_mttf_days: float = 30.0,
    nodes: int = 20,
    racks: int = 4,
    budget: float = 0.5,
    window_s: float = 60.0,
    results: Library | None = None,
) -> Card:
    """Draw every scheme for a job: expected recovery with its range, replicas, and useful work."""
    job = Job(
        rate_per_s=rate,
        state_bytes=state_gb * 1e9,
        node_mttf_s=node_mttf_days * 86_400.0,
        nodes=nodes,
        racks=min(racks, nodes),
        budget=budget,
        window_s=window_s,
    )
    found = advise(job, load() if results is None else results)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, option in enumerate(reversed(found.options)):
            look = SCHEMES[option.scheme.key]
            if option.outage is None:
                axes.annotate(option.unknown, (1, place), color=look.color, va="center")
                continue
            middle = option.outage.mean_s
            axes.errorbar(
                [middle], [place],
                xerr=[[middle - option.outage.best_s], [option.outage.worst_s - middle]],
                color=look.color, marker=look.marker, capsize=3,
            )  # fmt: skip
            every = f", every {format_duration(option.interval_s)}" if option.interval_s else ""
            axes.annotate(
                f"{format_duration(middle)}; {option.extra_tasks:.0%} replicas; "
                f"{option.utilization:.2%} work{every}",
                (middle, place), xytext=(0, 8), textcoords="offset points", fontsize=7.5,
                ha="center",
            )  # fmt: skip
        axes.set_yticks(
            range(len(found.options)), [str(option.scheme) for option in reversed(found.options)]
        )
        axes.set_ylim(-0.6, len(found.options) - 0.3)
        axes.set_xscale("log")
        axes.set_xlabel("outage after one node's failure, from the failure on (s, logarithmic)")
        axes.set_title(job.describe())
        axes.margins(x=0.3)

    return drawing(draw, (8.0, 3.4))
