"""Facts of a run: its values that are not metrics.

A metric (`harness.measure.metrics`) has a unit and a direction that is better, and is compared and
drawn. A fact decides whether a metric can be trusted, or defines its sample. Every value of the
judge of a run (`harness.judging.outcome`) is the one or the other; a test compares."""

from __future__ import annotations

from collections.abc import Mapping

from harness.results.kills import MEANINGS, METRIC, OF_ONE_FAILURE

FACTS: Mapping[str, str] = {
    # the output, compared
    "output_equals_truth": "True if the first stable version of every result, and its last version "
    "that was not taken back, equal the ground truth; null if the run was ended before its last "
    "results came and nothing else is wrong.",
    "output_equals_twin": "True if the stable output equals that of the no-failure twin; null if "
    "the run was ended before its last results came and nothing else is wrong.",
    "twin_equals_truth": "True if the twin's stable output equals the ground truth.",
    "incomplete": "Reason why results may be missing without being lost, in the pass or its "
    "twin; an equality that differs in nothing else is null then.",
    "tolerance": "The relative difference up to which floating-point values count as equal.",
    "difference_from_truth": "Differences of the output from the truth, in words: the first "
    "results that are wrong, missing or superfluous.",
    "difference_from_twin": "Differences of the output from the twin's, in words.",
    "results": "Number of results of the ground truth.",
    "contradictions": "Results with two different stable values, in both passes together.",
    "revises": "True if the engine delivers revisions: the last value of a result is the result.",
    "tentative": "Results with a delivered tentative version.",
    "uncorrected": "Results whose tentative version was never replaced by a stable one.",
    "table_rows": "Rows of the database table at the end; empty for a workload without one.",
    "table_equals_truth": "True if the database table equals the ground truth.",
    "table_difference": "Differences of the database table from the ground truth, in words.",
    "paper_accuracy_reason": "Reason why there is no accuracy as the papers count it.",
    # the failures
    "schedule": "The planned failures, as drawn from the seed.",
    "failures_planned": "Number of planned kills, pauses and cuts.",
    "failures_done": "Number of kills, pauses and cuts that reached a node with a running "
    "part of the engine.",
    "failed_at_s": "Time of the first failure that reached the engine, in seconds from the start "
    "of the load.",
    "failure_lateness_s": "The longest time between a failure's planned instant and its first "
    "signal.",
    "failure_spread_s": "The longest time between a failure's first and its last signal.",
    "kills_planned": "Number of planned kills.",
    "kills_done": "Number of kills that ended a process of the engine.",
    "processes_killed": "Number of processes that the kills ended.",
    "nodes_killed": "The nodes of the processes that the kills ended.",
    "killed_at_s": "When the first kill was done, in seconds from the start of the load.",
    "kill_lateness_s": "The longest time between a kill's planned instant and its first signal.",
    "punctual_s": "The permitted lateness of a kill. A run with a later one is invalid, except in "
    "the smoke profile.",
    "injection_errors": "Why failures could not be done.",
    # how a recovery was measured, and the first failure's part of the table of kills
    **{name: MEANINGS[name] for name in OF_ONE_FAILURE if MEANINGS[name] != METRIC},
    "normal_latency_s": "The latency beyond which a window counts as late, by the twin's.",
    "twin_slowest_s": "The latency of the twin's slowest window.",
    "twin_kept_up": "True if the twin followed its load. If not, no time is compared with it.",
    # the engine
    "drained": "True if the engine delivered everything within the permitted time after the load.",
    "stalled": "True if the engine did not deliver everything within the permitted time after the "
    "load, and made no progress for minutes.",
    "died": "The last message of an engine that ended and did not come back.",
    "restarts": "Number of restarts of a query.",
    "plan_changes": "Number of adaptations of the plan to the rates during the run.",
    "plan_cost": "Resource units of the replicas that adaptations of the plan started.",
    "plan_value_before": "Output fidelity of the plan before its last change, at the new rates.",
    "plan_value_after": "Output fidelity of the plan after its last change.",
    "dropped_rows": "Rows that the watermark dropped; any in the twin make a run invalid.",
    # the load and the machine
    "records": "Number of sent records.",
    "load_s": "Duration of the load.",
    "load_cpu_s": "CPU seconds of the load generator.",
    "load_delivery_p99_s": "99th percentile of the time until the broker had a record.",
    "load_nice": "The nice value of the load generator.",
    "twin_first": "Whether the twin ran before the pass with failures.",
    "mistimed": "Which pass was not on time, and why: a late load, or a clock that jumped. Such a "
    "run is invalid, with two exceptions: in the smoke profile, and where the error of a clock is "
    "too large, the run counts without its times.",
    "foreign_share": "Share of the machine's cores that other programs used during the pass.",
    "steal_share": "Share of the machine's cores that the hypervisor gave to other machines.",
    "load_average": "Processes that ran or waited on the machine in the last minute, by core.",
    "loop_cpu_ms": "CPU time of a fixed computation during the pass, median: a core that other "
    "machines share is slower, which no share shows.",
    "twin_idle_share": "Share of the cores that was idle over the load of the twin.",
    "twin_least_idle_share": "Smallest share of the cores that was idle over ten seconds of the "
    "twin's load.",
    "twin_load_cores": "Cores that the load generator used in the twin.",
    "twin_judge_cores": "Cores that the process of the judge used in the twin.",
    "too_few_cores": "Why this machine cannot hold the load: its times then count for nothing.",
    "disturbed": "Why other load makes the run doubtful: it was above a stated limit.",
    "broker_offset_s": "Largest offset of the broker's clock from the harness's; where it is "
    "larger than its bound, append times are translated.",
    "broker_bound_s": "Largest error of the offset of the broker's clock, half of a round trip.",
    "clock_offset_s": "Largest offset of a node's clock from the harness's.",
    "clock_bound_s": "Largest error of the offset of a node's clock.",
    "other_clusters": "Other clusters of this user that ran on the machine during the run.",
}
