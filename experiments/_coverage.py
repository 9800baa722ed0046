"""Every row of the papers: where it is made here, or why it cannot be had.

A row is a figure, a table or a sentence with a number of its own. `Coverage.where` names
experiments, or files of the tree where something that is not a figure is kept; tests compare both
with what there is, and the rows with the papers' own numbering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """One figure, table, formula, worked example or data set of a paper."""

    paper: str
    """As ``--paper`` names papers."""
    row: str
    """Its number in the paper; of PPA both papers' numbers, as in ``"ICDE 7, TKDE 8"``."""
    what: str
    where: tuple[str, ...] = ()
    """Experiments, or files of the tree (those have a dot in their name)."""
    note: str = ""
    """What is missing of it, or why it is not made."""


_SCHEMATIC = "A drawing that explains; nothing is measured in it."

COVERAGE: Sequence[Coverage] = (
    # PPA
    Coverage("ppa", "ICDE 1, TKDE 1", "MC-trees of a topology with and without a join",
             ("harness/topology/named.py", "tests/topology/test_trees.py"),
             "A worked example: 16 and 8 trees, as a unit test."),
    Coverage("ppa", "ICDE 2, TKDE 2", "output loss behind a failed task",
             ("harness/topology/named.py", "tests/topology/test_fidelity.py"),
             "A worked example: 2/5 with a join and 1/4 without, as a unit test."),
    Coverage("ppa", "ICDE 3, TKDE 3", "units of a structured topology",
             ("tests/planning/test_decomposition.py",), "A worked example, as a unit test."),
    Coverage("ppa", "ICDE 4, TKDE 4", "sub-topologies",
             ("tests/planning/test_decomposition.py",), "A worked example, as a unit test."),
    Coverage("ppa", "TKDE 5", "the virtual sink of several queries",
             ("tests/planning/test_decomposition.py", "ppa/planner-readings"),
             "A worked example, as a unit test; what the virtual sink gains is measured."),
    Coverage("ppa", "TKDE 6", "two ways for OF to rise during recovery",
             ("harness/planning/incremental.py",), _SCHEMATIC + " The area under the curve is "
             "`incremental.area`."),
    Coverage("ppa", "ICDE 5, TKDE 7", "the system's architecture", (), _SCHEMATIC),
    Coverage("ppa", "ICDE 6, TKDE 11", "the topology of the recovery figures",
             ("harness/topology/named.py", "workloads/synthetic.py"),
             "Run by the four figures below."),
    Coverage("ppa", "ICDE 7, TKDE 8", "recovery latency of a single failure",
             ("ppa/recovery-single", "live/recovery"),
             "The bars' values and most of the intervals in the legend are lost."),
    Coverage("ppa", "ICDE 8, TKDE 9", "recovery latency of a correlated failure",
             ("ppa/recovery-correlated", "live/recovery"),
             "The bars' values and most of the intervals in the legend are lost."),
    Coverage("ppa", "ICDE 9, TKDE 10", "cost of checkpoints",
             ("ppa/checkpoint-cost", "live/checkpoint-cost"),
             "The bars' values are lost."),
    Coverage("ppa", "ICDE 10a, ICDE 10b, TKDE 12a, TKDE 12b", "recovery latency under PPA",
             ("ppa/partial-replication", "live/partial-replication"),
             "What stands on the x axis is lost; checkpoint intervals are taken."),
    Coverage("ppa", "ICDE 11, TKDE 13", "queries Q1 and Q2",
             ("workloads/worldcup.py", "workloads/traffic.py"),
             "Task counts are lost; Q1 has 20 MC-trees."),
    Coverage("ppa", "ICDE 12a, ICDE 12b, TKDE 14a, TKDE 14b", "OF and IC against accuracy",
             ("ppa/query-accuracy", "ppa/query-readings", "live/query-accuracy")),
    Coverage("ppa", "ICDE 13a, ICDE 13b, TKDE 15a, TKDE 15b", "DP, SA and greedy on Q1 and Q2",
             ("ppa/query-fidelity", "live/query-fidelity")),
    Coverage("ppa", "ICDE 14a, ICDE 14b, ICDE 14c, ICDE 14d, TKDE 16a, TKDE 16b, TKDE 16c, "
             "TKDE 16d", "random single-query topologies",
             ("ppa/random-topologies", "ppa/optimum-gap", "ppa/planner-readings"),
             "The degree ranges of (b) are lost."),
    Coverage("ppa", "TKDE 17", "random multi-query topologies",
             ("ppa/multi-query", "live/multi-query", "ppa/planner-readings"),
             "How a topology gets several sinks is not printed."),
    Coverage("ppa", "TKDE 18a, TKDE 18b", "how long planning takes", ("ppa/plan-runtime",)),
    Coverage("ppa", "TKDE 19a, TKDE 19b, TKDE 19c, TKDE 19d", "INC against TO",
             ("ppa/incremental-recovery",), "The degree ranges of (b) are lost."),
    Coverage("ppa", "TKDE 20a, TKDE 20b", "INC against TO by OF and accuracy",
             ("ppa/recovery-accuracy", "live/recovery-accuracy"),
             "The text names crawled tweets as the input, which neither query reads."),
    Coverage("ppa", "nodes attached on EC2", "minutes until the last new node is there", (),
             "A property of a public cloud of those years; it cannot be measured on a machine of "
             "one's own."),
    Coverage("ppa", "tentative output ten times earlier", "the conclusion's number",
             ("ppa/partial-replication", "live/partial-replication")),
    Coverage("ppa", "an order of magnitude over greedy", "the conclusion's number",
             ("ppa/random-topologies",)),
    Coverage("ppa", "heartbeats, progress, recovery latency", "how the papers measure",
             ("harness/hosting/restoration.py", "experiments/ppa/_recovery.py"),
             "5 s until a failure is suspected; from there until the progress vector is back."),
    Coverage("ppa", "output loss, OF, IC", "equations 1 to 4, and IC of Bellavista et al.",
             ("harness/topology/fidelity.py", "tests/topology/oracle.py"),
             "IC's exact form could not be read; that of one configuration and the worst case is "
             "used."),
    Coverage("ppa", "Algorithms 1 to 5", "SA, full and structured topologies, INC (TKDE's numbers)",
             ("harness/planning/structure_aware.py", "harness/planning/incremental.py",
              "ppa/planner-readings"),
             "What is defective in print is listed in the modules, each reading a switch."),
    Coverage("ppa", "plan adaptation", "left open in ICDE, section V-C",
             ("harness/planning/adaptation.py", "ppa/drift", "live/drift")),
    # Utilization
    Coverage("intervals", "1", "a period with its checkpoint", (), _SCHEMATIC),
    Coverage("intervals", "2", "a failure inside the period", (), _SCHEMATIC),
    Coverage("intervals", "3", "a failure inside the restart", (), _SCHEMATIC),
    Coverage("intervals", "4", "U over T, one process", ("intervals/single-process",),
             "The values of the curves are lost."),
    Coverage("intervals", "5", "equation 4 against simulation",
             ("intervals/single-process-simulated",), "The run's length is lost."),
    Coverage("intervals", "6", "a DAG of three operators", (), _SCHEMATIC),
    Coverage("intervals", "7", "staggered checkpoints", (), _SCHEMATIC),
    Coverage("intervals", "8", "overlapping periods", (), _SCHEMATIC),
    Coverage("intervals", "9", "a failure before and after the checkpoint is complete", (),
             _SCHEMATIC),
    Coverage("intervals", "10", "U over T, for a parameter whose symbol is lost",
             ("intervals/dag-delay",),
             "Which parameter the curves differ in, and its values, are lost; it is δ here."),
    Coverage("intervals", "11", "one operator against a DAG", ("intervals/dag-depth",),
             "Which of several parameter sets gives the 11.6 % is lost."),
    Coverage("intervals", "12", "equation 10 against simulation", ("intervals/dag-simulated",),
             "The values of the curves are lost."),
    Coverage("intervals", "13", "failure rate and gain by nodes", ("intervals/node-count",)),
    Coverage("intervals", "14", "very deep topologies", ("intervals/deep-topologies",),
             "Which n has U = 0.0018 is lost."),
    Coverage("intervals", "15a", "T* by three models", ("intervals/optimal-intervals",),
             "Zhuang's formula cannot be had; a reconstruction stands in its place."),
    Coverage("intervals", "15b", "U at each model's optimum", ("intervals/rival-utilization",),
             "Zhuang's formula cannot be had; a reconstruction stands in its place."),
    Coverage("intervals", "16", "gain over the other models", ("intervals/rival-gain",),
             "Both percentages of the text are lost."),
    Coverage("intervals", "Table 1", "Flink, observed and theoretical",
             ("intervals/flink", "intervals/flink-live", "live/utilization"),
             "The theory beside the paper's measurements. Each of the paper's repetitions takes 20 "
             "to 40 hours."),
    Coverage("intervals", "five real systems", "gain over 30 minutes",
             ("intervals/real-systems",)),
    Coverage("intervals", "30 minutes at 0.0022 per hour", "the 19 days of section 5",
             ("intervals/real-systems",), "c = 1 s follows from it."),
    Coverage("intervals", "gain falls as c rises", "a sentence of section 5",
             ("intervals/node-count",)),
    Coverage("intervals", "equations 1 to 10", "utilization and T*",
             ("harness/intervals/utilization.py", "intervals/agreement"),
             "Equation 10 is exact for the process that it describes; simulated to show it."),
    # Edge
    Coverage("edge", "1", "resilience-unaware and -aware placement", (), _SCHEMATIC),
    Coverage("edge", "2", "system overview", (), _SCHEMATIC),
    Coverage("edge", "3", "a resilient physical plan", (), _SCHEMATIC),
    Coverage("edge", "4", "the accident detection application", ("workloads/accident.py",),
             _SCHEMATIC),
    Coverage("edge", "5a, 5b", "throughput around a failure",
             ("edge/throughput", "live/edge-throughput")),
    Coverage("edge", "6a, 6b", "latency over the input rate",
             ("edge/latency", "live/edge-latency"),
             "The input rates on the x axis are lost."),
    Coverage("edge", "7", "success rate over the input rate",
             ("edge/success", "live/edge-success"),
             "The input rates on the x axis are lost."),
    Coverage("edge", "8", "throughput over the input rate",
             ("edge/success", "live/edge-success"),
             "The input rates on the x axis are lost."),
    Coverage("edge", "9a, 9b, 9c", "processor, memory, network",
             ("edge/resources", "live/edge-resources"),
             "The input rates on the x axis are lost."),
    Coverage("edge", "failure prediction", "section III-D", ("edge/prediction",),
             "The recall of 90.9 %, 73 minutes ahead, is that of another paper's network, which is "
             "cited."),
    Coverage("edge", "200 ms between gateway and datacenter", "the example of section II", (),
             "An example in words, of a way that is too long; nothing is measured in it."),
    Coverage("edge", "equations 1 to 3, Algorithm 1", "risk, store, ackers, replicas",
             ("harness/planning/rppg.py", "harness/planning/schedulers.py",
              "harness/planning/tiers.py")),
    # DPC
    *(Coverage("dpc", str(number), what, (), _SCHEMATIC) for number, what in (
        (1, "a query network on four nodes"), (2, "the state machine"),
        (3, "the data model, with undo tuples"), (4, "serialization of three streams"),
        (5, "switching between replicas"), (6, "trees of SUnions"),
        (7, "not named in the copy at hand"), (8, "not named in the copy at hand"),
    )),
    Coverage("dpc", "40 ms", "a switch to the replica masks a node's failure",
             ("dpc/node-failure-live",)),
    Coverage("dpc", "9", "delay and tentative tuples over αX",
             ("dpc/availability-bound", "dpc/availability-bound-live")),
    Coverage("dpc", "10", "six policies over the failure's duration",
             ("dpc/failure-duration", "dpc/failure-duration-live")),
    Coverage("dpc", "11", "a chain of nodes",
             ("dpc/chain-length", "dpc/chain-length-live")),
    Coverage("dpc", "12 left, 12 middle", "checkpoint/redo against undo/redo",
             ("dpc/reconciliation", "dpc/reconciliation-live")),
    Coverage("dpc", "12 right", "the price of being able to go back",
             ("dpc/checkpoint-overhead", "dpc/checkpoint-overhead-live")),
    Coverage("dpc", "Table 1", "types of tuples", ("harness/protocol/effects.py",),
             "They are the protocol's messages."),
    Coverage("dpc", "Table 2", "analytic costs", ("dpc/reconciliation",)),
    Coverage("dpc", "Table 3", "delay over the bucket size",
             ("dpc/serialization", "dpc/serialization-live"),
             "Its values are lost."),
    Coverage("dpc", "Properties 1 to 4", "section 3.5", ("dpc/properties",)),
    # What the papers rest on
    Coverage("data", "World Cup 1998", "the access log's format, its generator and its fit",
             ("datasets/worldcup/format.py", "datasets/worldcup/generator.py",
              "stock/worldcup-fit"),
             "The real day can be given as files; it is not shipped."),
    Coverage("data", "traffic incidents", "Q2's generator", ("datasets/traffic.py",),
             "Speeds, the jam's threshold and an incident's duration are not printed: chosen."),
    Coverage("data", "accident detection", "the edge paper's input", ("datasets/accident.py",),
             "Cars, roads and epsilon are not printed: chosen."),
    Coverage("data", "Los Alamos failures", "rates, repairs and bursts",
             ("datasets/failure_logs.py", "intervals/lanl-systems", "edge/prediction")),
    Coverage("data", "failure models", "exponential, Weibull, lognormal repair, bursts, racks",
             ("harness/failures/generators.py", "harness/intervals/failure_models.py",
              "intervals/non-exponential")),
    Coverage("data", "other models of the interval", "Young, Daly, Zhuang",
             ("harness/intervals/rivals.py",), "Zhuang's is a reconstruction."),
    Coverage("data", "published recovery", "one worker killed, by van Dongen and Van den Poel",
             ("stock/worker-kill",), "Another machine and another job: stood beside ours."),
)  # fmt: skip


def coverage_markdown(numbers: Mapping[str, str]) -> str:
    """Return the table for ``experiments/README.md``.

    ``numbers``: by experiment, where its numbers come from."""
    lines = [
        "| paper | row | what | where | numbers | what is missing, or why |",
        "|---|---|---|---|---|---|",
    ]
    for row in COVERAGE:
        where = ", ".join(f"`{name}`" for name in row.where) or "–"
        origins = dict.fromkeys(numbers[name] for name in row.where if name in numbers)
        lines.append(
            f"| {row.paper} | {row.row} | {row.what} | {where} | {', '.join(origins) or '–'} "
            f"| {row.note} |"
        )
    return "\n".join(lines) + "\n"
