"""Readings of SA's printed algorithms where they leave room (ppa TKDE, Algorithms 1 to 3).

`PRINTED` follows the paper's wording; figures of the paper are drawn with it. `QUICK` is this
planner's earlier behaviour: fewer rounds, smaller units.

Tests: ``tests/planning/test_structure_aware.py``."""

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
    """The criterion for segments that complete a tree. False: the value of each with its unit
    treated as a topology (Algorithm 1, line 13). True: that value per resource unit."""
    cheaper: bool = True
    """True if a part whose best step no longer fits offers its next ones (line 14 lets no
    candidate exceed the budget); if False it offers nothing."""
    segments_per_task: int | None = None
    """Limit of segments per task above which a unit is cut into its operators. None: no limit but
    `MOST_SEGMENTS`, as in the paper, which has no such rule."""
    by_increase: bool = False
    """Growth of a full sub-topology after one task of each operator. False: by the best plan
    (Algorithm 2, line 13). True: as in the text below it, by the task whose own increase of OF is
    largest while all other operators are alive, which is nearly the greedy planner."""
    virtual_sink: bool = True
    """True if every query's own MC-trees are candidates, as with the virtual sink of section 4.4;
    if False only those of the whole topology, which end at operators without a reader (SA for a
    single query)."""

    def __post_init__(self) -> None:
        if self.nearly is not None and not 0 < self.nearly <= 1:
            raise UsageError(f"nearly is {self.nearly}", remedy="give a fraction above 0, or None")
        if self.segments_per_task is not None and self.segments_per_task < 1:
            raise UsageError(
                f"segments_per_task is {self.segments_per_task}", remedy="give 1 or more, or None"
            )


PRINTED = Readings()
QUICK = Readings(nearly=0.9, per_unit=True, cheaper=False, segments_per_task=8)
