"""How SA's printed algorithms are read where they leave room (ppa TKDE, Algorithms 1 to 3).

`PRINTED` is the paper's wording and what figures of the paper are drawn with. `QUICK` is what
this planner did before the wording was looked at again: fewer rounds, smaller units.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageError

MOST_SEGMENTS = 10_000
"""A unit with more segments is always cut: trees can multiply without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One way to read the algorithms; the defaults are the paper's."""

    nearly: float | None = None
    """None: one step a round (Algorithm 3, lines 11 to 15). A fraction: every step of another
    part that is at least so dense, relative to the best one, is taken in the same round."""
    per_unit: bool = False
    """By what the segments that complete a tree are chosen: by what each gives with its unit
    treated as a topology (Algorithm 1, line 13), or by that per resource unit."""
    cheaper: bool = True
    """Whether a part whose best step no longer fits offers its next ones (line 14 lets no
    candidate exceed the budget), or nothing."""
    segments_per_task: int | None = None
    """A unit with more segments than this per task is cut into its operators. None: as the paper,
    which has no such rule, until `MOST_SEGMENTS`."""
    by_increase: bool = False
    """By what a full sub-topology grows after one task of each operator: by the plan that is best
    (Algorithm 2, line 14), or, as the text below it has it, by the task whose own increase of OF
    is largest while all other operators are alive. The latter is nearly what greedy does."""
    virtual_sink: bool = True
    """Whether every query's own MC-trees are candidates, as with the virtual sink of section 4.4,
    or those of the whole topology alone, which end where nothing reads on (single-query SA)."""

    def __post_init__(self) -> None:
        if self.nearly is not None and not 0 < self.nearly <= 1:
            raise UsageError(f"nearly is {self.nearly}", remedy="give a fraction above 0, or None")
        if self.segments_per_task is not None and self.segments_per_task < 1:
            raise UsageError(
                f"segments_per_task is {self.segments_per_task}", remedy="give 1 or more, or None"
            )


PRINTED = Readings()
QUICK = Readings(nearly=0.9, per_unit=True, cheaper=False, segments_per_task=8)
