"""A figure: a measurement, and the half that shows it. One module a figure, live or not.

A module under ``experiments/`` has two halves, in this order::

    def run(point, context) -> Outcome: ...         # measures one point once

    MEASUREMENT = computed("ppa/random-topologies", grid, seconds, run=run)

    # Shown: no record depends on what follows.

    def table(results) -> DataFrame: ...            # valid runs as what the figure shows; tested
    def draw(table, figure) -> None: ...            # thin
    CLAIMS = [paper("sa-ahead", "SA is ahead of greedy").every(...), ...]

    EXPERIMENT = Experiment(measurement=MEASUREMENT, table=table, draw=draw, claims=CLAIMS, ...)

A live counterpart of the figure is a second pair in the same module, ``LIVE_MEASUREMENT =
measured(...)`` and ``LIVE_EXPERIMENT = EXPERIMENT.live(...)``, with an id of its own.

Records depend on the code that ``run`` reaches, definition by definition (`harness.results.reach`).
A reworded claim, a note or a colour discards none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

from harness.claims import Claim
from harness.claims.cells import Printed
from harness.claims.samples import FEWEST
from harness.measurement import (
    Context,
    Measurement,
    Origin,
    Scheduling,
    computed,
    measured,
    simulated,
)
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "Context", "Experiment", "Measurement", "Origin", "Outcome", "Point", "Profile", "Results",
    "Scheduling", "Tables", "computed", "measured", "simulated",
]  # fmt: skip
"""What the module of a figure is made of, to import from one place."""

Tables = Union["pd.DataFrame", Mapping[str, "pd.DataFrame"]]
"""The data that an experiment shows: one table, or several by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """One figure (or table) of a paper, or one of our own."""

    measurement: Measurement
    """Its runs. Two experiments that share one show the same runs, measured once."""
    name: str = ""
    """``group/name`` if it differs from the measurement's: it shows another module's runs."""
    paper: str
    """The paper as a reader would cite it; "Faultline" for our own."""
    figure: str
    """The figure or table of that paper."""
    title: str
    statement: str
    """The paper's statement about this figure, in a sentence or two."""
    table: Callable[[Results], Tables]
    """Turns valid runs, also those of a part of the grid, into one table or several by name."""
    draw: Callable[[Any, Figure], None]
    """Draws the result of ``table``, also that of a part of the grid."""
    claims: Sequence[Claim]
    fewest: int = FEWEST
    """Least repetitions of each point behind a verdict on live runs, where a claim does not compare
    a statistic of samples, which has its own number."""
    outages: Callable[[Mapping[str, pd.DataFrame]], pd.DataFrame] | None = None
    """Its kills for the report's first table, from its tables: ``engine`` (a name), ``scheme``,
    ``outage_s`` and ``not_over`` (then it was watched for that long). Without it the tables are
    searched (`harness.pages.outages`)."""
    notes: Sequence[str] = ()
    """Facts that a reader must know: chosen values where the paper's are lost, reduced sizes."""
    figure_size_in: tuple[float, float] = (8.0, 4.5)
    smoke_covered_by: str | None = None
    """The experiment whose smoke run shows all of this one. ``reproduce --profile smoke``,
    which must end in two minutes, leaves this one out; asked for by name it runs."""
    quick_by_page: bool = False
    """True if plain ``reproduce --profile quick``, which must end in an hour, leaves it out. It
    runs with its page (``--paper``), with all pages (``--all``), and asked for by name."""
    main: bool = False
    """True for the figure that comes first on its page; a live counterpart comes after it."""
    printed: Sequence[Printed] = ()
    """The numbers that the paper prints for this figure, in text, table or readable axis."""
    counterpart: str = ""
    """The id of the figure of which this one is a live counterpart: claims with the same id are
    about the same sentence."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Claims by id that are about the sentence of another claim, a live counterpart or another
    reading of it, with that claim as ``experiment/id``. Claims of one sentence count once."""
    scaled_by: Experiment | None = None
    """The experiment that finds the factor by which this machine's grids must be longer. It runs
    first, in every profile but smoke, and `Context.calibration` has its values."""

    def live(self, measurement: Measurement, **given: Any) -> Experiment:
        """Return its live counterpart, which is the same but for what is ``given``.

        Quick has it with its page, and smoke has a quicker one in its place."""
        usual = {
            "figure": f"{self.figure}, live",
            "smoke_covered_by": "stock/worker-kill",
            "quick_by_page": True,
        }
        return replace(self, measurement=measurement, **{**usual, **given})

    @property
    def id(self) -> str:
        """``group/name``, the path of its module under ``experiments/`` with dashes."""
        return self.name or self.measurement.id

    @property
    def group(self) -> str:
        """The part before the slash: ppa, intervals, edge, dpc, live or stock."""
        return self.id.split("/", 1)[0]

    @property
    def anchor(self) -> str:
        """The id as the name of files and as the anchor on its page."""
        return self.id.replace("/", "-")

    def sentence(self, claim: str) -> str:
        """Return the key of the sentence that its claim of this id is about."""
        own = f"{self.counterpart or self.id}/{claim}"
        return self.sentences.get(claim, own)

    @property
    def ours(self) -> bool:
        """True if its statement is our own and no paper's."""
        return self.paper.startswith("Faultline")

    @property
    def origin(self) -> Origin:
        """The source of its numbers."""
        return self.measurement.origin

    @property
    def grid(self) -> Mapping[Profile, Sequence[Point]]:
        """The points of each profile."""
        return self.measurement.grid
