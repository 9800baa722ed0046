"""The list of experiments: what the modules under ``experiments/`` define as one of `NAMES`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.experiment import Experiment
from harness.measurement import Origin
from harness.results.record import Point, Profile
from harness.text import format_duration, nearest

GROUPS = {
    "ppa": "PPA: partially active replication (ICDE 2016, TKDE 2019)",
    "intervals": "Utilization model for checkpoint intervals (FGCS 2020)",
    "edge": "Resilient stream processing in edge computing (CCGrid 2021)",
    "dpc": "Borealis: delay, process and correct (SIGMOD 2005)",
    "live": "The papers' protocols live, on Spark (Faultline's own)",
    "stock": "Stock Spark Structured Streaming under failures (Faultline's own)",
}

NAMES = ("EXPERIMENT", "LIVE_EXPERIMENT")
"""A figure has its module's name; its live counterpart stands in the same module."""
WORDS = {Origin.MEASURED: "live", Origin.SIMULATED: "simulated", Origin.COMPUTED: "computed"}
"""Origins in the lists of ``experiments/README.md``."""


@functools.cache
def all_experiments() -> Sequence[Experiment]:
    """Return every experiment, by group and then by name."""
    import experiments

    found: list[Experiment] = []
    for module in pkgutil.walk_packages(experiments.__path__, "experiments."):
        if module.ispkg or module.name.rsplit(".", 1)[-1].startswith("_"):
            continue
        defined = vars(importlib.import_module(module.name))
        chosen = [defined[name] for name in NAMES if name in defined]
        expected = module.name.removeprefix("experiments.").replace(".", "/").replace("_", "-")
        assert not chosen or chosen[0].id == expected, f"{module.name} calls itself {chosen[0].id}"
        found += chosen
    order = list(GROUPS)
    return sorted(found, key=lambda experiment: (order.index(experiment.group), experiment.id))


@functools.cache
def by_page() -> Mapping[str, Sequence[Experiment]]:
    """Return the experiments of each page, a paper's in the paper's own order.

    A live figure of a paper stands beside its simulated one; the page ``live`` has what is our own.
    Experiments that no row of a paper names follow by name."""
    from experiments._coverage import COVERAGE

    place: dict[tuple[str, str], int] = {}
    for number, row in enumerate(COVERAGE):
        for name in row.where:
            place.setdefault((row.paper, name), number)
    pages: dict[str, list[Experiment]] = {group: [] for group in GROUPS}
    for experiment in all_experiments():
        papers = [paper for paper, name in place if name == experiment.id and paper in pages]
        moves = experiment.group == "live" and not experiment.ours and papers
        pages[papers[0] if moves else experiment.group].append(experiment)
    for page, chosen in pages.items():
        chosen.sort(key=lambda each: (place.get((page, each.id), len(COVERAGE)), each.id))
    return pages


def page_of(experiment: Experiment) -> str:
    """Return the name of the page on which an experiment stands."""
    return place_of(experiment)[0]


def place_of(experiment: Experiment) -> tuple[str, int]:
    """Return the page on which an experiment stands, and its number there; -1 for one of a test."""
    for page, chosen in by_page().items():
        for number, each in enumerate(chosen):
            if each.id == experiment.id:
                return page, number
    return experiment.group, -1


def find(ids: Sequence[str]) -> Sequence[Experiment]:
    """Return the experiments with these ids; a group's name means all that fetch nothing.

    Raises `UsageError` for an unknown id."""
    known = {experiment.id: experiment for experiment in all_experiments()}
    chosen: dict[str, Experiment] = {}
    for wanted in ids:
        matches = [
            e
            for e in known.values()
            if wanted == e.id or (wanted == e.group and e.measurement.fetches is None)
        ]
        if not matches:
            names = [*dict.fromkeys(e.group for e in known.values()), *known]
            near = nearest(wanted.rstrip("/"), names)
            raise UsageError(
                f"there is no experiment {wanted!r}",
                remedy=(f"did you mean {near!r}? " if near else "")
                + "./faultline list shows all of them",
            )
        chosen.update({experiment.id: experiment for experiment in matches})
    return list(chosen.values())


def to_reproduce(
    page: str | None, profile: Profile, *, peers: bool = False, every: bool = False
) -> Sequence[Experiment]:
    """Return the experiments that ``reproduce`` runs: all of a page, or of all pages.

    A paper's page has its live figures, too. Those that fetch another system belong to them only
    with ``peers``. The smoke profile leaves out those that another one covers. The quick profile of
    all pages leaves out those that run with their page, unless ``every`` one is wanted."""
    chosen = [e for e in on_page(page) if peers or e.measurement.fetches is None]
    if profile is Profile.SMOKE:
        return [e for e in chosen if e.smoke_covered_by is None]
    if profile is Profile.QUICK and page is None and not every:
        return [e for e in chosen if not e.quick_by_page]
    return chosen


def on_page(page: str | None) -> Sequence[Experiment]:
    """Return the experiments of one page, by group and name as all of them are; or of all."""
    return [e for e in all_experiments() if page in (None, page_of(e))]


def at_point(
    experiments: Sequence[Experiment], profile: Profile, words: str, *, more: Sequence[Point] = ()
) -> Mapping[str, Sequence[Point]]:
    """Return the points that have the values in ``words`` ("scheme=active,interval_s=2").

    ``more`` are points beyond the grids.
    They are given by experiment, without those that have none. A number that the grid lacks makes
    new points of those that have the other values. Raises `UsageError` if nothing is left."""
    pairs = [part.partition("=") for part in words.split(",")]
    if any(not sign for _, sign, _ in pairs):
        raise UsageError(
            f"--point {words} is no list of NAME=VALUE",
            remedy="write it as --point scheme=checkpoint,interval_s=2",
        )
    wanted = {name.strip(): value.strip() for name, _, value in pairs}
    grids = {e.id: [*e.grid[profile], *more] for e in experiments}
    chosen = {name: _points(grid, wanted) for name, grid in grids.items()}
    if not any(chosen.values()):
        there = [point for grid in grids.values() for point in grid]
        shown = "; ".join(",".join(f"{k}={v}" for k, v in point.items()) for point in there[:8])
        raise UsageError(
            f"no point of profile {profile.value} has {words}",
            remedy=f"the points are: {shown}" + (" ..." if len(there) > 8 else ""),
        )
    return {experiment: points for experiment, points in chosen.items() if points}


def _points(grid: Sequence[Point], wanted: Mapping[str, str]) -> Sequence[Point]:
    """Return the points with these values; a number outside of the grid replaces one of it."""
    changes = {}
    for name, value in wanted.items():
        there = [point[name] for point in grid if name in point]
        if any(_same(each, value) for each in there):
            continue
        number = _number_like(there, value)
        if number is None:
            return []
        changes[name] = number
    kept = {name: value for name, value in wanted.items() if name not in changes}
    points = [{**point, **changes} for point in grid if _has(point, kept)]
    return [point for number, point in enumerate(points) if point not in points[:number]]


def _number_like(there: Sequence[object], words: str) -> float | int | None:
    """Return ``words`` as a number of the type that the grid has there; None if it has none."""
    if not there or any(isinstance(each, bool | str) or each is None for each in there):
        return None
    try:
        number = float(words)
    except ValueError:
        return None
    whole = all(isinstance(each, int) for each in there) and number.is_integer()
    return int(number) if whole else number


def _has(point: Point, wanted: Mapping[str, str]) -> bool:
    return all(name in point and _same(point[name], value) for name, value in wanted.items())


def _same(value: object, words: str) -> bool:
    """Return True if ``words`` write ``value``; numbers count by their value: 2 is 2.0."""
    try:
        return float(str(value)) == float(words)
    except ValueError:
        return str(value) == words


def estimate_s(experiment: Experiment, profile: Profile, repeats: int | None = None) -> float:
    """Return the estimated duration of an experiment on two cores."""
    runs = len(experiment.grid[profile]) * (repeats or experiment.measurement.repeats[profile])
    return runs * experiment.measurement.seconds_per_run[profile]


def catalogue_markdown() -> str:
    """Return the reproduction table of ``experiments/README.md``."""
    lines = [
        "# Experiments",
        "",
        "Made by `./faultline list --markdown`; a test keeps it current. Times are rough, for two",
        "cores, in the profiles smoke, quick and paper.",
        "",
        "*Live* numbers come from real servers; *simulated* ones from the protocols' own code, or",
        "from a model, in virtual time; *computed* ones from formulas and planners. A paper's",
        "figures are in the paper's order, each live one beside its simulated one.",
    ]
    for group, title in GROUPS.items():
        chosen = by_page()[group]
        if not chosen:
            continue
        head = "| figure | what it shows | numbers | smoke | quick | paper |"
        lines += ["", f"## {title}", "", head, "|---|---|---|---|---|---|"]
        for e in chosen:
            times = " | ".join(format_duration(estimate_s(e, profile)) for profile in Profile)
            lines.append(
                f"| {e.paper}, {e.figure} | {e.title}<br>`./faultline run {e.id}` "
                f"| {WORDS[e.origin]} | {times} |"
            )
    from experiments._coverage import coverage_markdown
    from harness.planning.planners import planners_markdown

    title = "## Row by row: every figure, table and formula of the papers"
    lost = (
        "A value is called lost if it could not be read from our copy of the paper, which has the "
        "text and not\nthe drawings. A value that we chose stands in its place, and the figure "
        "says so."
    )
    numbers = {experiment.id: WORDS[experiment.origin] for experiment in all_experiments()}
    lines += ["", title, "", lost, "", coverage_markdown(numbers)]
    lines += ["## The planners", "", planners_markdown()]
    return "\n".join(lines)
