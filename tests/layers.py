"""The layers of the tree, from the top down, enforced by tests and shown in ARCHITECTURE.md.

``python -m tests.layers`` prints the table for ARCHITECTURE.md."""

from __future__ import annotations

from collections.abc import Sequence

LAYERS: Sequence[tuple[Sequence[str], str]] = (
    # A module may import from its own line and the lines below.
    (["harness.cli"], "one module a command; nothing else prints"),
    (["harness.notebook"], "the code behind the notebooks, which contain no code of their own"),
    (
        ["harness.nightly", "harness.advice"],
        "the nightly gate against an earlier revision; which scheme for a job, with reasons",
    ),
    (
        ["harness.pages"],
        "one assessment of records as a report, a static site, figures, tables and an archive for "
        "reviewers",
    ),
    (
        ["harness.running"],
        "finds experiments, plans and makes runs, also in other processes; the warm cluster",
    ),
    (["experiments"], "one module a figure: a half that measures, then one that shows"),
    (
        ["harness.stock_kills"],
        "kills of a worker and of a rack under stock Spark, for a user's file and for the figures",
    ),
    (
        ["harness.judging", "harness.endurance"],
        "one run of any engine, and its judge (`run`, `passes`, `outcome`); long runs with random "
        "kills",
    ),
    (
        ["harness.engines"],
        "the systems under test behind one contract (`base`), and their list (`kinds`)",
    ),
    (["harness.simulator"], "the protocol in virtual time: world, faults, checkers"),
    (
        ["harness.hosting"],
        "the work that every host of the protocol shares: an effect's answers, programs, bytes",
    ),
    (
        ["harness.failures", "harness.load"],
        "seeded failure schedules and the injector; the open-loop load generator",
    ),
    (["harness.cluster"], "backends: real servers and ways to break them (`docs/clusters.md`)"),
    (["harness.environment"], "finds or fetches Java, Redis and the jars; `doctor`"),
    (["workloads"], "one file a workload, with a form for each kind of engine"),
    (["datasets"], "the input of workloads: generators, and readers of real data"),
    (
        ["harness.protocol", "harness.planning"],
        "fault-tolerance protocols as pure state machines; planners of replication and placement",
    ),
    (
        ["harness.topology", "harness.intervals", "harness.measure", "harness.figures"],
        "models of topologies and of checkpoint intervals; every measure, defined once; one style "
        "for every figure",
    ),
    (
        ["harness.experiment", "harness.measurement"],
        "a figure's two halves as values: a measurement, and an experiment that shows it",
    ),
    (
        ["harness.claims", "harness.results"],
        "claims and their verdicts; records, their store, and the code that they depend on "
        "(`reach`)",
    ),
    (
        ["harness.child"],
        "a child process that exchanges lines of JSON with the harness: load generator, drivers",
    ),
    (["harness.cache"], "the user's cache of fetched and unpacked files"),
    (
        ["harness.errors", "harness.seeds", "harness.text", "harness.yaml_files"],
        "errors, derived seeds, quantities as text, YAML files with their mistakes; for all others",
    ),
    (["harness"], "the version"),
)


def level(module: str) -> int | None:
    """Return the line of a module, counted from the top; None outside of all layers."""
    for depth, (layer, _) in enumerate(LAYERS):
        if any(module == name or module.startswith(f"{name}.") for name in layer):
            return depth
    return None


def table() -> str:
    """Return the layers as a table in Markdown."""
    lines = ["| package | what it holds |", "|---|---|"]
    for names, words in LAYERS[:-1]:
        places = ", ".join(f"`{name.replace('.', '/')}`" for name in names)
        lines.append(f"| {places} | {words} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
