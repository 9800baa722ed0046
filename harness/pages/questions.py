"""The questions that the first page answers, at most seven, each as a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from harness.claims import Basis, Cause, ClaimKind, Verdict, Word
from harness.claims.cells import Cells, largest, largest_of, smallest_of
from harness.pages.answers import Column, Counted, Outages, Question
from harness.pages.assessment import Assessment
from harness.pages.cards import address
from harness.pages.sentences import Judged, measured_live, standing

LIVE = ("live", "live at declared speed")


def smallest_above_zero(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where a column has its smallest value above zero."""
    return column == column[column > 0].min()


def shortened(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where times are shorter than the paper's."""
    return column > 1


KILL = Question(
    id="kill",
    words="What does the kill of a worker cost a user of each system?",
    parts=[
        Outages(
            figure="live/peers",
            where={"kill": "worker"},
            systems={
                "the task engine, tuned": "the task engine with replicas",
                "the task engine, checkpoints, tuned": "the task engine with checkpoints alone",
                "stock Spark (micro-batches), two queries, tuned": "Spark with two queries",
                "stock Spark (micro-batches), tuned": "Spark's micro-batches",
                "stock Spark (real-time mode), tuned": "Spark's real-time mode",
                "Kafka Streams, tuned": "Kafka Streams",
                "Flink, tuned": "Flink",
            },
        )
    ],
    sentences=[
        "After the kill of a worker, results come late for {all}.",
        "Late is more than 1 s later than in the same run without a kill, as a user sees it. Each "
        "system has settings for fast recovery.",
    ],
    limits=["the task engine is our own"],
    axis="results come late after the kill of a worker [s]",
    claims=["live/peers/exact-under-exactly-once", "live/peers/at-least-once-loses-nothing"],
)


def _of_matrix(name: str, scheme: str, column: str, over: str = "", unit: str = "s") -> Column:
    table, whole = "cells" if unit == "times" else "kills", {"scheme": over} if over else {}
    cells = Cells(table, column, {"scheme": scheme}, over=whole)
    return Column(name, "live/matrix", cells, unit=unit)


def _all_nodes(name: str, contender: str, label: str) -> Column:
    where = {"engine": LIVE, "contender": contender, "failure": "all 15 nodes"}
    cells = Cells("samples", "outside_s", where, per=["sample"])
    return Column(name, "live/recovery", cells, label=label)


REPLICAS = Question(
    id="replicas",
    words="Does active replication beat checkpoints, and what does it cost?",
    parts=[
        _all_nodes("every 30 s", "CKP-30s", "all 15 nodes die: a checkpoint every 30 s"),
        _all_nodes("active", "Active-5s", "all 15 nodes die: a replica of each task"),
        Outages(
            figure="live/matrix",
            labels={
                "checkpoint": "checkpoints alone",
                "PPA": "replicas of a part (PPA), {part cost} times the processor time",
                "full replication": "a replica of each task, {full cost} times the processor time",
            },
        ),
        _of_matrix("full cost", "full replication", "cpu_s", "checkpoint", "times"),
        _of_matrix("part cost", "PPA", "cpu_s", "checkpoint", "times"),
        _of_matrix("inside full", "full replication", "inside_s"),
        _of_matrix("inside none", "checkpoint", "inside_s"),
        _of_matrix("inside part", "PPA", "inside_s"),
    ],
    sentences=[
        "After all 15 nodes of a query died, a user gets results late for {every 30 s} with a "
        "checkpoint every 30 s, and for {active} with active replication (a replica of each "
        "task).",
        "Over four workloads and two models of failures these are {checkpoint} with checkpoints "
        "alone, {full replication} with a replica of each task, and {PPA} with replicas of a part "
        "of the tasks, whose results are partial meanwhile.",
        "Seen by the engine, all tasks are back after {inside none} with checkpoints alone, "
        "{inside full} with a replica of each and {inside part} with replicas of a part.",
        "Replicas of all tasks take {full cost} times the processor time of checkpoints alone, "
        "those of a part {part cost} times.",
    ],
    axis="results come late after a failure of nodes or racks, as a user sees it [s]",
    limits=["the engine is our own, the task engine"],
    claims=[
        "live/recovery/active-much-faster",
        "live/matrix/replication-back-sooner",
        "live/matrix/ppa-cheaper",
    ],
)


def _accuracy(query: str) -> Column:
    where = {"query": query, "planner": "inc", "arrived": smallest_above_zero}
    cells = Cells("curves", "measured", where)
    return Column(query, "live/recovery-accuracy", cells, unit="share")


def _recovered(name: str, series: str, label: str) -> Column:
    cells = Cells("latencies", "latency_s", {"engine": LIVE, "series": series})
    return Column(name, "live/partial-replication", cells, label=label)


PARTIAL = Question(
    id="partial",
    words="How early is partial output, and how wrong?",
    parts=[
        _recovered(
            "first", "PPA-0.5, first tentative output", "first partial output, half replicated"
        ),
        _recovered("complete", "PPA-0.5", "all tasks back, half replicated"),
        _recovered("none", "PPA-0", "all tasks back, no replicas"),
        Column(
            "arrived",
            "live/recovery-accuracy",
            Cells("curves", "arrived", {"planner": "inc", "arrived": smallest_above_zero}),
            unit="share",
        ),
        Column(
            "faster",
            "live/partial-replication",
            Cells("samples", "faster", {"engine": LIVE, "faster": shortened}),
            unit="times",
        ),
        _accuracy("Q1"),
        _accuracy("Q2"),
    ],
    sentences=[
        "With replicas of half of the tasks, the first partial output comes {first} after all "
        "nodes failed; all tasks are back after {complete}.",
        "When {arrived} of the tasks are back, {Q1} of the results of the top 100 (Q1) are right, "
        "and {Q2} of those of the traffic jams (Q2).",
    ],
    axis="time after the failure of all nodes [s]",
    claims=[
        "live/partial-replication/tentative-corrected",
        "live/partial-replication/active-half-much-earlier",
        "live/recovery-accuracy/inc-ahead",
    ],
    limits=["nodes compute at a declared speed", "the paper's times are divided by {faster}"],
)


def _useful(name: str, interval: str, column: str, label: str) -> Column:
    cells = Cells("utilization", column, {"engine": "flink", "interval": interval})
    return Column(name, "intervals/flink-live", cells, unit="share", label=label)


def _over(name: str, model: str) -> Column:
    cells = Cells("", "gain_percent", {"model": model}, take=largest)
    return Column(name, "intervals/rival-gain", cells, unit="percent")


INTERVAL = Question(
    id="interval",
    words="What does the best checkpoint interval gain, and over what?",
    parts=[
        _useful("best", "T*", "measured", "Flink, the best interval T*"),
        _useful("best model", "T*", "model", "the model's prediction for T*"),
        _useful("long", "30 min", "measured", "Flink, a checkpoint every 30 minutes"),
        _useful("long model", "30 min", "model", "the model's prediction for 30 minutes"),
        _over("daly", "daly"),
        _over("young", "young"),
    ],
    sentences=[
        "While nodes are killed again and again, Flink does useful work {best} of the time at the "
        "best interval T*, and {long} with a checkpoint every 30 minutes.",
        "Over the intervals of older formulas T* gains at most {young} (Young's) and {daly} "
        "(Daly's of higher order).",
    ],
    axis="share of the time with useful work",
    claims=[
        "intervals/flink-live/optimum-better",
        "intervals/flink-live/model-predicts",
        "intervals/rival-gain/daly-2006",
    ],
    limits=[
        "kills and intervals, also the 30 minutes, are shortened by one factor; a restart is not"
    ],
)


def _left(plan: str) -> Column:
    cells = Cells("", "lost", {"model": "racks", "ratio": 0.5, "plan": plan})
    return Column(f"left by {plan}", "ppa/expected-fidelity", cells, unit="share")


RACKS = Question(
    id="racks",
    words="Racks fail, and the budget is replicas for half of the tasks: which scheme?",
    parts=[
        Outages(
            figure="live/matrix",
            where={"failures": "correlated"},
            best_of=("PPA", "RPPG+RAS", "RPPG+DRA"),
            labels={
                "checkpoint": "checkpoints alone",
                "RPPG+DRA": "RPPG+DRA: replicas of a part, spread as Storm does",
                "RPPG+RAS": "RPPG+RAS: replicas of a part, near their primaries",
                "PPA": "PPA: replicas of a part, partial output meanwhile",
                "full replication": "a replica of each task (twice the budget)",
            },
        ),
        _left("expected"),
        _left("greedy"),
        _left("sa"),
    ],
    sentences=[
        "Of the schemes with replicas for a part of the tasks, {best} has the shortest outage "
        "when racks fail: results come late for {PPA} under PPA, {RPPG+RAS} under RPPG with "
        "replicas near their primaries (RAS), and {RPPG+DRA} under RPPG with replicas spread as in "
        "Storm (DRA).",
        "PPA's results are partial until all tasks are back, those of RPPG are complete.",
        "With checkpoints alone results come late for {checkpoint}; with a replica of each task, "
        "which is twice the budget, for {full replication}.",
        "By calculation, it matters which half gets the replicas. Of the output that rack failures "
        "cost without replicas, a plan made for such failures still loses {left by expected}, the "
        "greedy plan {left by greedy}, and the papers' planner SA {left by sa}.",
    ],
    axis="results come late after the failure of racks, as a user sees it [s]",
    limits=["the engine is our own, the task engine"],
    claims=["live/matrix/far-back-sooner", "ppa/expected-fidelity/drawn"],
)


def _waiting(name: str, bound: object, label: str, column: str = "tentative") -> Column:
    cells = Cells("passes", column, {"during_failure": "delay", "bound_s": bound})
    unit = "s" if column != "tentative" else ""
    return Column(name, "dpc/availability-bound-live", cells, unit=unit, label=label)


def _cut_off(name: str, column: str, unit: str = "") -> Column:
    cells = Cells("runs", column, {"scheme": "PPA", "failure": "cut off"})
    return Column(name, "live/partition", cells, unit=unit)


PARTITION = Question(
    id="partition",
    words="What is tentative output worth when a partition heals?",
    parts=[
        _waiting("short", smallest_of, "each tuple may wait {short bound}"),
        _waiting("long", largest_of, "each tuple may wait {long bound}"),
        _waiting("short bound", smallest_of, "", "bound_s"),
        _waiting("long bound", largest_of, "", "bound_s"),
        _cut_off("tentative", "tentative"),
        _cut_off("corrections", "corrections"),
        _cut_off("uncorrected", "uncorrected"),
        _cut_off("right", "paper_accuracy_first", "share"),
        _cut_off("down", "down_s", "s"),
    ],
    sentences=[
        "With a rack cut off for {down}, PPA delivers {tentative} tentative results; {right} of "
        "all first results are right, {corrections} are corrected after the partition heals, and "
        "{uncorrected} stay wrong.",
        "Waiting costs time and saves tentative output: under DPC there are {short} tentative "
        "tuples if each may wait {short bound}, and {long} if it may wait {long bound}.",
    ],
    axis="tentative tuples during a failure (DPC)",
    claims=["live/partition/tentative-corrected", "dpc/availability-bound-live/delay-proportional"],
)


def _papers(judged: Sequence[Assessment]) -> Sequence[Judged]:
    return [each for each in standing(judged) if each.verdict.kind is ClaimKind.PAPER]


def _fails(judged: Sequence[Assessment]) -> Sequence[Judged]:
    return [
        each
        for each in _papers(judged)
        if each.verdict.word is Word.DOES_NOT_HOLD and each.verdict.basis is not Basis.FOREGONE
    ]


_WHY: Mapping[Cause | None, str] = {
    Cause.NOT_SO: "built as described, and not so",
    Cause.READING: "built or compared otherwise than in the paper",
    Cause.LOST: "a parameter is in no copy of the paper",
    Cause.MACHINE: "the machine",
    None: "no reason found",
}


def _counts(judged: Sequence[Assessment]) -> Mapping[str, tuple[str, int]]:
    """Return the numbers of the papers' sentences, and of those that fail by their cause."""
    papers, fails = [each.verdict for each in _papers(judged)], _fails(judged)
    open_to_both = [each for each in papers if each.basis is not Basis.FOREGONE]
    if not papers:
        return {}
    live = [each.verdict for each in measured_live(judged)]

    def number(verdicts: Sequence[Verdict], *words: Word) -> int:
        return sum(verdict.word in words for verdict in verdicts)

    decided = (Word.HOLDS, Word.DOES_NOT_HOLD)
    causes = Counter(each.verdict.cause for each in fails)
    return {
        "fail": ("", len(fails)),
        "statements": ("", len(papers)),
        "decided": ("", number(open_to_both, *decided)),
        "foregone": ("", len(papers) - len(open_to_both)),
        "live fail": ("", number(live, Word.DOES_NOT_HOLD)),
        "live hold": ("", number(live, Word.HOLDS)),
        "live open": ("", number(live, Word.UNDECIDED, Word.NOT_MEASURED)),
        "live": ("", len(live)),
        **{str(cause): (words, causes[cause]) for cause, words in _WHY.items() if causes[cause]},
    }


def _failing(judged: Sequence[Assessment]) -> Sequence[Mapping[str, str]]:
    """Return the sentences that fail, with their cause and figure."""
    return [
        {
            "text": f"“{each.verdict.text}” ({each.verdict.basis}): {_WHY[each.verdict.cause]}. "
            f"{each.verdict.why or ''}".rstrip(),
            "title": f"{each.item.experiment.paper}, {each.item.experiment.figure}",
            "href": address(each.item.experiment),
        }
        for each in sorted(_fails(judged), key=lambda each: each.verdict.basis is not Basis.LIVE)
    ]


PAPERS = Question(
    id="papers",
    words="Which statements of the papers do not hold, and why?",
    parts=[Counted(count=_counts)],
    sentences=[
        "{live} of the papers' {statements} statements were tested live, that is on real servers: "
        "{live hold} with the verdict “holds”, {live fail} with “does not hold”, and {live open} "
        "still open (a verdict takes six passes, for DPC three).",
        "With those that were simulated or calculated, {fail} of {decided} decided statements do "
        "not hold. They are listed below, those that fail live first.",
        "{foregone} more could hardly come out otherwise, and are counted apart.",
    ],
    axis="statements that do not hold, by the reason",
    details=_failing,
    run="./faultline report --from results/baselines --out shipped",
)

QUESTIONS: Sequence[Question] = (KILL, REPLICAS, RACKS, PAPERS, PARTIAL, INTERVAL, PARTITION)
