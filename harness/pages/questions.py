"""The questions that the first page answers, at most seven, each as a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from harness.claims import Cause, ClaimKind, Verdict, Word
from harness.pages.answers import Column, Counted, Outages, Question, largest
from harness.pages.assessment import Assessment
from harness.pages.sentences import Judged, measured_live, standing
from harness.running.discovery import page_of

LIVE = ("live", "live at declared speed")


def smallest_above_zero(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where a column has its smallest value above zero."""
    return column == column[column > 0].min()


def largest_of(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where a column has its largest value."""
    return column == column.max()


def smallest_of(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where a column has its smallest value."""
    return column == column.min()


KILL = Question(
    id="kill",
    words="What does the kill of a worker cost a user of each system?",
    parts=[Outages(figure="live/peers")],
    sentences=[
        "After the kill of a worker, results are late for {all}.",
        "The time is measured at the output, from the kill until results are on time again.",
    ],
    limits=["the task engine is our own; tuned, each of its tasks has a replica"],
    axis="results are late after the kill of a worker [s]",
    claims=["live/peers/exact-under-exactly-once", "live/peers/at-least-once-loses-nothing"],
    run="./faultline run live/peers",
)


def _of_matrix(name: str, scheme: str, column: str, over: str = "", unit: str = "s") -> Column:
    return Column(
        name,
        "live/matrix",
        "cells" if unit == "times" else "kills",
        column,
        {"scheme": scheme},
        over={"scheme": over} if over else {},
        unit=unit,
    )


REPLICAS = Question(
    id="replicas",
    words="Does active replication beat checkpoints, and what does it cost?",
    parts=[
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
        "A user waits {checkpoint} after a failure with checkpoints alone, {full replication} "
        "with a replica of each task, and {PPA} with replicas of a part, whose output is partial "
        "meanwhile.",
        "The replicas cost {full cost} times the processor time of checkpoints alone, those of a "
        "part {part cost} times.",
        "By the engine's own report its tasks are back after {inside none}, {inside full} and "
        "{inside part}.",
    ],
    axis="results are late after a failure of nodes or racks, as a user sees it [s]",
    claims=["live/matrix/replication-back-sooner", "live/matrix/ppa-cheaper"],
    run="./faultline run live/matrix",
)


def _accuracy(query: str) -> Column:
    return Column(
        query,
        "live/recovery-accuracy",
        "curves",
        "measured",
        {"query": query, "planner": "inc", "arrived": smallest_above_zero},
        unit="share",
    )


def _recovered(name: str, series: str, label: str) -> Column:
    return Column(
        name,
        "live/partial-replication",
        "latencies",
        "latency_s",
        {"engine": LIVE, "series": series},
        label=label,
    )


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
            "curves",
            "arrived",
            {"planner": "inc", "arrived": smallest_above_zero},
            unit="share",
        ),
        Column(
            "faster",
            "live/partial-replication",
            "samples",
            "faster",
            {"engine": LIVE},
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
    limits=["nodes compute at a declared speed, and all times are {faster} times shorter"],
    run="./faultline run live/partial-replication live/recovery-accuracy",
)


def _useful(name: str, interval: str, column: str, label: str) -> Column:
    return Column(
        name,
        "intervals/flink-live",
        "utilization",
        column,
        {"engine": "flink", "interval": interval},
        unit="share",
        label=label,
    )


def _over(name: str, model: str) -> Column:
    return Column(
        name,
        "intervals/rival-gain",
        "",
        "gain_percent",
        {"model": model},
        take=largest,
        unit="percent",
    )


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
    limits=["kills and intervals are shortened by the same factor, the time of a restart is not"],
    run="./faultline run intervals/flink-live intervals/rival-gain",
)


def _left(plan: str) -> Column:
    return Column(
        f"left by {plan}",
        "ppa/expected-fidelity",
        "",
        "lost",
        {"model": "racks", "ratio": 0.5, "plan": plan},
        unit="share",
    )


RACKS = Question(
    id="racks",
    words="Racks fail, and half of the tasks can have a replica: which scheme, and where?",
    parts=[
        Outages(
            figure="live/matrix",
            where={"failures": "correlated"},
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
        "When racks fail, a user waits {PPA} under PPA (with partial output), {RPPG+RAS} under "
        "RPPG+RAS, {RPPG+DRA} under RPPG+DRA, {checkpoint} with checkpoints alone and "
        "{full replication} with a replica of each task.",
        "Of the output that rack failures cost without replicas, {left by expected} is still lost "
        "with the plan made for such failures, {left by greedy} with the greedy one and "
        "{left by sa} with PPA's (SA), each with half of the tasks replicated.",
    ],
    axis="results are late after the failure of racks, as a user sees it [s]",
    claims=["live/matrix/far-back-sooner", "ppa/expected-fidelity/drawn"],
    run="./faultline run live/matrix ppa/expected-fidelity",
)


def _waiting(name: str, bound: object, label: str, column: str = "tentative") -> Column:
    return Column(
        name,
        "dpc/availability-bound-live",
        "passes",
        column,
        {"during_failure": "delay", "bound_s": bound},
        unit="s" if column != "tentative" else "",
        label=label,
    )


def _cut_off(name: str, column: str, unit: str = "") -> Column:
    return Column(
        name, "live/partition", "runs", column, {"scheme": "PPA", "failure": "cut off"}, unit=unit
    )


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
    run="./faultline run live/partition dpc/availability-bound-live",
)


def _papers(judged: Sequence[Assessment]) -> Sequence[Judged]:
    return [each for each in standing(judged) if each.verdict.kind is ClaimKind.PAPER]


def _fails(judged: Sequence[Assessment]) -> Sequence[Judged]:
    return [each for each in _papers(judged) if each.verdict.word is Word.DOES_NOT_HOLD]


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
    if not papers:
        return {}
    live = [each.verdict for each in measured_live(judged)]

    def number(verdicts: Sequence[Verdict], *words: Word) -> int:
        return sum(verdict.word in words for verdict in verdicts)

    decided = (Word.HOLDS, Word.DOES_NOT_HOLD)
    causes = Counter(each.verdict.cause for each in fails)
    return {
        "fail": ("", len(fails)),
        "decided": ("", number(papers, *decided)),
        "live fail": ("", number(live, Word.DOES_NOT_HOLD)),
        "live decided": ("", number(live, *decided)),
        "live": ("", len(live)),
        **{str(cause): (words, causes[cause]) for cause, words in _WHY.items() if causes[cause]},
    }


def _failing(judged: Sequence[Assessment]) -> Sequence[Mapping[str, str]]:
    """Return the sentences that fail, with their cause and figure."""
    return [
        {
            "text": f"“{each.verdict.text}” ({each.verdict.basis}): {_WHY[each.verdict.cause]}",
            "title": f"{each.item.experiment.paper}, {each.item.experiment.figure}",
            "href": f"{page_of(each.item.experiment)}.html#{each.item.experiment.anchor}",
        }
        for each in _fails(judged)
    ]


PAPERS = Question(
    id="papers",
    words="Which sentences of the papers do not hold, and why?",
    parts=[Counted(count=_counts)],
    sentences=[
        "Of {decided} sentences of the papers that are decided here, {fail} do not hold.",
        "{live} were measured live: {live decided} of these are decided by that, and {live fail} "
        "do not hold.",
    ],
    axis="sentences that do not hold, by the reason",
    details=_failing,
    run="./faultline report --from results/baselines --out shipped",
)

QUESTIONS: Sequence[Question] = (KILL, REPLICAS, PARTIAL, INTERVAL, RACKS, PARTITION, PAPERS)
