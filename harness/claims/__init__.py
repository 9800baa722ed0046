"""Claims: sentences with an id and a rule, and the verdicts of the rules on measured tables.

A claim's id never changes; its text is only shown. The rule is a function of the experiment's
tables that returns a `Finding`::

    @paper("greedy-behind", "Greedy falls behind SA in all settings")
    def greedy_behind(table):
        margin = ...                       # one value per cell of the grid
        return every(margin > 0, smallest_margin=margin.min())

    CLAIMS = [
        greedy_behind,
        paper("decrease", "Utilization is 11.6 % lower").near(decrease_percent, 11.6, 0.05),
    ]

Null rule: on a part of the grid a claim can be refuted by a cell (`every`), and is otherwise not
measured; a rule that needs missing rows may simply fail there (`judge`).
"""

from __future__ import annotations

from harness.claims.claim import Claim, ClaimKind, Finding, Rule, Verdict, judge
from harness.claims.regions import region, shares
from harness.claims.rules import (
    all_of,
    at_least,
    at_most,
    every,
    found,
    hypothesis,
    invariant,
    near,
    not_asked,
    paper,
    unmeasured,
)

__all__ = [
    "Claim", "ClaimKind", "Finding", "Rule", "Verdict", "all_of", "at_least", "at_most", "every",
    "found", "hypothesis", "invariant", "judge", "near", "not_asked", "paper", "region", "shares",
    "unmeasured",
]  # fmt: skip
