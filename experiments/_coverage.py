"""Every figure and table of the papers: where it is made here, or why it cannot be had.

`Coverage.where` names experiments; a test compares them with what there is. ``note`` says what is
missing of a figure that is made, or why one is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """One figure, table or claim of a paper."""

    paper: str
    """As ``--paper`` names papers."""
    figure: str
    """Its number; of PPA that of the conference's paper, the journal's in brackets."""
    where: tuple[str, ...] = ()
    note: str = ""


_SCHEMATIC = "A drawing that explains; nothing is measured in it."

COVERAGE: Sequence[Coverage] = (
    Coverage("ppa", "1-5 (1-7, 11, 13)", (), "Drawings of topologies and MC-trees: the examples "
             "in them are unit tests of `harness/topology` and `harness/planning`."),
    Coverage("ppa", "7 (8)", ("ppa/recovery-single",), "The bars' values and most of the "
             "intervals in the legend are lost."),
    Coverage("ppa", "8 (9)", ("ppa/recovery-correlated",), "As above."),
    Coverage("ppa", "9 (10)", ("ppa/checkpoint-cost",)),
    Coverage("ppa", "10 (12)", ("ppa/partial-replication",)),
    Coverage("ppa", "12 (14)", ("ppa/query-accuracy",), "Task counts of Q1 and Q2 are lost except "
             "20 and 1 of Q1."),
    Coverage("ppa", "13 (15)", ("ppa/query-fidelity",)),
    Coverage("ppa", "14 (16)", ("ppa/random-topologies", "ppa/optimum-gap"), "The degree ranges "
             "of (b) are lost."),
    Coverage("ppa", "(6)", (), _SCHEMATIC),
    Coverage("ppa", "(17)", ("ppa/multi-query",)),
    Coverage("ppa", "(18)", ("ppa/plan-runtime",)),
    Coverage("ppa", "(19)", ("ppa/incremental-recovery",)),
    Coverage("ppa", "(20)", ("ppa/recovery-accuracy",), "The text names crawled tweets as the "
             "input, which neither query reads."),
    Coverage("ppa", "nodes attached to Storm on EC2 over minutes", (), "A property of a public "
             "cloud in 2015; it cannot be measured on a machine of one's own."),
    Coverage("intervals", "1-3, 6-9", (), _SCHEMATIC),
    Coverage("intervals", "4", ("intervals/single-process",), "The values of the curves are lost."),
    Coverage("intervals", "5", ("intervals/single-process-simulated",), "As above."),
    Coverage("intervals", "10", ("intervals/dag-delay",), "As above."),
    Coverage("intervals", "11", ("intervals/dag-depth",)),
    Coverage("intervals", "12", ("intervals/dag-simulated",), "As above."),
    Coverage("intervals", "13", ("intervals/node-count",)),
    Coverage("intervals", "14", ("intervals/deep-topologies",), "Which n has U = 0.0018 is lost."),
    Coverage("intervals", "15", ("intervals/optimal-intervals", "intervals/rival-utilization"),
             "Zhuang's formula cannot be had; a reconstruction stands in its place."),
    Coverage("intervals", "16", ("intervals/rival-gain",), "Both percentages of the text are "
             "lost."),
    Coverage("intervals", "Table 1", ("intervals/flink",), "The theory beside the paper's "
             "measurements. A live repetition takes 20 to 40 hours a row, or a rate of failures so "
             "scaled up that restarts fill the run; it was not made."),
    Coverage("intervals", "five real systems", ("intervals/real-systems",)),
    Coverage("edge", "1-4", (), "Drawings of the architecture and the application."),
    Coverage("edge", "5", ("edge/throughput",)),
    Coverage("edge", "6", ("edge/latency",), "The input rates on the x axis are lost."),
    Coverage("edge", "7, 8", ("edge/success",), "As above."),
    Coverage("edge", "9", ("edge/resources",), "As above."),
    Coverage("edge", "failure prediction", ("edge/prediction",), "The recall of 90.9 %, 73 minutes "
             "ahead, is another paper's network on hardware counters that were never published."),
    Coverage("dpc", "1-8", (), "Drawings of the architecture and the states of a node."),
    Coverage("dpc", "9", ("dpc/availability-bound",)),
    Coverage("dpc", "10", ("dpc/failure-duration",)),
    Coverage("dpc", "11", ("dpc/chain-length",)),
    Coverage("dpc", "12 (left, middle), Table 2", ("dpc/reconciliation",)),
    Coverage("dpc", "12 (right)", ("dpc/checkpoint-overhead",)),
    Coverage("dpc", "Table 1", (), "The types of tuples; they are the protocol's messages."),
    Coverage("dpc", "Table 3", ("dpc/serialization",), "Its values are lost."),
    Coverage("dpc", "Properties 1-4", ("dpc/properties",)),
)  # fmt: skip


def coverage_markdown() -> str:
    """The table for ``experiments/README.md``."""
    lines = ["| paper | figure | where | what is missing, or why |", "|---|---|---|---|"]
    for row in COVERAGE:
        where = ", ".join(f"`{name}`" for name in row.where) or "–"
        lines.append(f"| {row.paper} | {row.figure} | {where} | {row.note} |")
    return "\n".join(lines) + "\n"
