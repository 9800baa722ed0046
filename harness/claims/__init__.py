"""Claims: sentences with an id and a rule, and the verdicts of the rules on measured tables.

A claim's id never changes; its text is only shown. Its rule is a quantity of the experiment's
tables, a comparison, a limit, and the numbers to show (`quantity`, `rules.Comparison`)::

    margin = rows["sa"] - rows["greedy"]       # one value per cell of the grid

    CLAIMS = [
        paper("ahead", "SA is ahead in all settings").every(margin > 0, smallest=margin.min()),
        paper("decrease", "Utilization is 11.6 % lower").near(decrease_percent(), 11.6, 0.05),
    ]

What no comparison says is a function of the tables that returns a `Finding`, decorated with the
sentence.

A rule that compares repeated measurements with a limit gets a `Sample` (`median_of`, `ratio_of`): a
limit inside its 95 % interval leaves the claim undecided, and so do fewer samples than six. What
was measured live is undecided below six samples under any rule; only what is `counted` is refuted
by one.

A verdict rests on something live, simulated or computed, or is foregone (`Basis`). Claims of one
sentence have one key, and count once (`harness.pages.sentences`).

Null rule: on a part of the grid a claim can be refuted by a cell (`every`), and is otherwise not
measured; a rule that needs missing rows may simply fail there (`judge`)."""

from __future__ import annotations

from harness.claims.claim import (
    Basis,
    Cause,
    Claim,
    ClaimKind,
    Finding,
    Foregone,
    Rule,
    Verdict,
    Word,
    judge,
    too_few,
)
from harness.claims.quantity import applied, quantity, rows, rows_of
from harness.claims.regions import region, shares
from harness.claims.rules import (
    all_of,
    at_least,
    at_most,
    every,
    found,
    hypothesis,
    invariant,
    not_asked,
    paper,
    together,
    unmeasured,
)
from harness.claims.samples import (
    Sample,
    difference_of,
    mean_of,
    median_of,
    ratio_of,
)

__all__ = [
    "Basis", "Cause", "Claim", "ClaimKind", "Finding", "Foregone", "Rule", "Sample", "Verdict",
    "Word", "all_of", "applied", "at_least", "at_most", "difference_of", "every", "found",
    "hypothesis", "invariant", "judge", "mean_of", "median_of", "not_asked", "paper",
    "quantity", "ratio_of", "region", "rows", "rows_of", "shares", "together", "too_few",
    "unmeasured",
]  # fmt: skip
