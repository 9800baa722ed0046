"""Deliberate mistakes in the judging code, each of which the tests must find.

A mutation replaces a piece of one function's text; the function is compiled anew in its own module
and put in the place of the right one wherever that was imported."""

# ruff: noqa: E501 - the table reads best as a table

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

from harness.claims import claim
from harness.failures import injector
from harness.judging import failures, outcome, resources, trust
from harness.measure import collector, recovery, versions, windows
from harness.pages import assessment
from tests import test_claims as by_claims
from tests.judging import test_failures as by_failures
from tests.judging import test_outcome as by_outcome
from tests.measure import test_collector as by_collector
from tests.measure import test_recovery as by_recovery
from tests.measure import test_versions as by_versions
from tests.measure import test_windows as by_windows
from tests.pages import test_report as by_verdicts


@dataclass(frozen=True, slots=True)
class Mutation:
    """One thing that is wrong."""

    module: ModuleType
    place: str
    """A function of the module, or "Class.method"."""
    right: str
    wrong: str
    caught_by: Callable[..., None]

    def __str__(self) -> str:
        return f"{self.module.__name__.split('.')[-1]}.{self.place}: {self.right} -> {self.wrong}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the wrong function in the place of the right one."""
        owner, name = self.module, self.place
        if "." in name:
            kind, name = name.split(".")
            owner = getattr(self.module, kind)
        original = inspect.getattr_static(owner, name)
        wrong = self._compiled(original)
        with ExitStack() as stack:
            stack.enter_context(patch.object(owner, name, wrong))
            for module in list(sys.modules.values()):
                if vars(module).get(name) is original:
                    stack.enter_context(patch.object(module, name, wrong))
            yield

    def _compiled(self, original: Any) -> Any:
        function: Any = original.fget if isinstance(original, property) else original
        text = textwrap.dedent(inspect.getsource(function))
        assert text.count(self.right) == 1, f"{self.place} has changed: mutate it anew"
        found: dict[str, Any] = {}
        code = compile(
            text.replace(self.right, self.wrong), f"<{self.place} with a mistake>", "exec"
        )
        exec("from __future__ import annotations", found)
        exec(code, vars(self.module), found)
        return found[function.__name__]


_MISTAKES: Sequence[tuple[ModuleType, str, Sequence[tuple[str, str, Callable[..., None]]]]] = (
    # What is equal
    (outcome, "_correctness", [
        ("_verdict(stable, standing, missing=late)", "_verdict(standing, missing=late)", by_outcome.test_a_first_version_that_was_wrong_is_not_repaired_by_a_later_one),
        ("_verdict(stable, standing, missing=late)", "_verdict(stable, missing=late)", by_outcome.test_copies_that_contradict_each_other_are_a_violation),
        ("against(seen.stable, calmly.stable", "against(calmly.stable, calmly.stable", by_outcome.test_a_tampered_result_is_wrong_against_twin_and_truth),
        ("against(calmly.stable, truth", "against(seen.stable, truth", by_outcome.test_a_tampered_twin_is_found_too),
        ("against(seen.stable, truth", "against(seen.first, truth", by_outcome.test_tentative_output_that_is_corrected_equals_the_twin),
        ("len(seen.contradictions) + ", "", by_outcome.test_copies_that_contradict_each_other_are_a_violation),
        ("against(seen.first, truth", "against(seen.last, truth", by_outcome.test_a_first_version_that_was_wrong_is_not_repaired_by_a_later_one),
    ]),
    (versions, "Comparison.equal", [
        ("len(self.missing) + ", "", by_versions.test_nothing_delivered),
        (" + len(self.extra)", "", by_outcome.test_a_result_too_many),
        (" + len(self.wrong)", "", by_versions.test_a_tampered_count_is_found),
        ("self.expected > 0 and", "", by_versions.test_nothing_expected_proves_nothing),
    ]),
    (versions, "Comparison.accuracy", [
        (" + len(self.wrong)", "", by_versions.test_a_tampered_count_is_found),
    ]),
    (versions, "compare", [
        ("if len(np.unique(number)) < len(number)", "if False", by_versions.test_an_identity_twice_is_refused),
    ]),
    # First, last, stable, tentative
    (versions, "versions", [
        ('[is_result].duplicated()', '[is_result].duplicated(keep="last")', by_versions.test_the_first_copy_is_taken_and_the_others_counted),
        ("is_result = stability == Stability.STABLE, stability != Stability.UNDO", "is_result = stability == Stability.STABLE, stability != None", by_versions.test_the_first_result_is_no_undo),
        ('deliveries[is_stable][~answers["identity"][is_stable]', 'deliveries[is_result][~answers["identity"][is_result]', by_versions.test_a_stable_result_after_a_tentative_one_is_a_correction),
    ]),
    (versions, "_contradictions", [
        ('distinct["identity"].duplicated()', 'distinct.duplicated()', by_versions.test_two_values_for_one_identity_contradict),
        ("distinct = answers[is_stable]", "distinct = answers", by_versions.test_a_stable_result_after_a_tentative_one_is_a_correction),
        ('_is_final(answers) & (', '~_is_final(answers) & (', by_versions.test_a_stable_result_that_is_taken_back_is_a_contradiction),
    ]),
    (versions, "_corrections", [
        ('both["place"] < both["place_final"]', 'both["place"] > both["place_final"]', by_versions.test_a_stable_result_after_a_tentative_one_is_a_correction),
    ]),
    (versions, "_standing", [
        ('answers["stability"].map(_RANK)', '(0 * answers["stability"].map(_RANK))', by_versions.test_a_late_tentative_result_changes_nothing_that_is_stable),
    ]),
    (versions, "_repeated", [
        ("~is_undo", 'answers["stability"] == Stability.STABLE', by_versions.test_the_same_tentative_result_after_its_undo_is_no_repetition),
    ]),
    # What is late
    (windows, "normal_of", [
        ("span.median()", "span.max()", by_windows.test_one_hiccup_of_the_twin_hides_no_outage),
        ("not np.isfinite(span).all()", "False", by_windows.test_a_twin_that_lost_a_window_is_no_measure),
    ]),
    (windows, "Normal.kept_up", [
        ("and self.slowest_s <= KEPT_UP_TAIL * limit_s", "", by_windows.test_one_hiccup_of_the_twin_hides_no_outage),
        ("self.median_s <= limit_s and", "", by_windows.test_one_hiccup_of_the_twin_hides_no_outage),
    ]),
    (windows, "due_times", [
        (" + watermark_delay_s", "", by_windows.test_a_window_is_due_with_the_record_that_closes_it),
    ]),
    (windows, "summarize_windows", [
        ("by_window.max()", "by_window.min()", by_windows.test_windows_are_complete_with_their_last_result),
        ('windows["delivered"] < windows["expected"]', 'windows["delivered"] < 0', by_windows.test_windows_are_complete_with_their_last_result),
    ]),
    (windows, "longest_silence_s", [
        ("float(before[-1]) if len(before) else from_s", "from_s", by_windows.test_silence),
        ("inside, [until_s]", "inside, [from_s]", by_windows.test_silence),
    ]),
    # What recovered
    (recovery, "recovery", [
        ("if not late.over and len(late.times) == 1:", "if False:", by_recovery.test_output_that_never_came_back_is_a_value),
        ("late.seconds - (first.end_s - first.begin_s)", "late.seconds", by_recovery.test_a_relapse_that_meets_the_next_failure_overlaps_it),
    ]),
    (recovery, "_until_the_next_one", [
        (".bfill()", "", by_recovery.test_a_lost_result_is_late_until_the_next_window_is_complete),
    ]),
    (recovery, "_times_of_late", [
        ("calm or due_s - late_due_s >= calm_s", "True", by_recovery.test_a_hiccup_within_the_calm_is_the_same_disturbance),
        ("calm or due_s - late_due_s >= calm_s", "False", by_recovery.test_a_hiccup_after_a_calm_is_another_disturbance),
        ("max(failed_at_s, due_s + median_s)", "failed_at_s", by_recovery.test_an_outage_begins_when_its_first_late_result_would_have_come),
        ("complete_s - due_s <= late_s", "complete_s - due_s < late_s", by_recovery.test_output_that_never_was_late_took_no_time),
    ]),
    (recovery, "recoveries", [
        ("not _calm(windows, groups[-1], at_s, normal, calm_s)", "False", by_recovery.test_failures_that_overlap_are_said_not_to_be_told_apart),
    ]),
    (recovery, "_calm", [
        (">= calm_s", ">= 0", by_recovery.test_failures_that_overlap_are_said_not_to_be_told_apart),
    ]),
    (recovery, "bounds_of_mean", [
        ("math.inf if censored else mean", "mean", by_recovery.test_a_mean_never_leaves_out_what_did_not_recover),
    ]),
    (injector, "InjectedFailure.felt", [
        ("any(victim.felt for victim in self.victims)", "True", by_outcome.test_a_kill_that_reached_nobody_is_not_done),
    ]),
    (failures, "_recoveries", [
        ("record.died is None and not record.stalled", "not record.stalled", by_failures.test_an_engine_that_died_did_not_recover),
        ("record.died is None and not record.stalled", "record.died is None", by_failures.test_an_engine_that_stalled_did_not_recover_whatever_its_twin_was_like),
        ("if normal is None or not twin_kept_up:", "if normal is None:", by_outcome.test_a_twin_that_fell_behind_leaves_recovery_unmeasured),
    ]),
    (outcome, "_unfinished", [
        ("is not None or record.stalled", "is not None", by_outcome.test_results_that_had_no_time_to_come_decide_nothing_and_wrong_ones_do),
    ]),
    (failures, "detection", [
        ('noticed[noticed["tasks"].ne("")]', "noticed", by_failures.test_a_node_that_was_no_tasks_primary_has_nothing_to_regain),
        ("if any(not len(rows) for rows in back):", "if False:", by_failures.test_a_node_that_did_not_come_back_is_not_left_out),
    ]),
    (failures, "_noticed", [
        ('incidents["at_s"] >= failure.at_s', "True", by_failures.test_detection_and_recovery_as_the_papers_define_it),
        ("if node in one.nodes", "", by_failures.test_a_detection_belongs_to_the_newest_failure_of_its_node),
        ("fillna(-math.inf)", "fillna(math.inf)", by_failures.test_detection_and_recovery_as_the_papers_define_it),
    ]),
    (failures, "regained", [
        ('back = back[back[LOSS].eq(noticed[LOSS])]', "pass", by_failures.test_a_recovery_is_that_of_its_own_loss),
        ('back = back[back["target"].isna() | back["target"].eq(noticed["target"])]', "pass", by_failures.test_a_node_that_did_not_come_back_is_not_left_out),
    ]),
    # What can be trusted
    (trust, "mistimed", [
        ("if record.load.invalid is not None:", "if False:", by_outcome.test_a_load_that_fell_behind_makes_a_run_invalid),
        ("> CLOCK_JUMP_S", "> 1e9", by_outcome.test_a_clock_that_jumped_makes_a_run_invalid),
    ]),
    (trust, "unpunctual", [
        ("latest.lateness_s <= limit_s", "True", by_outcome.test_a_kill_that_came_late_makes_a_run_invalid),
        ("key=lambda one: one.lateness_s", "key=lambda one: -one.lateness_s", by_outcome.test_the_latest_kill_decides),
    ]),
    (outcome, "_unfinished", [
        ("record.drained or", "", by_outcome.test_a_twin_that_lost_results_does_not_make_the_output_unequal),
    ]),
    (trust, "incomparable", [
        (
            "if dropped(twin) and not workload.late_data:",
            "if False:",
            by_outcome.test_rows_that_the_twin_dropped_make_a_run_invalid,
        ),
        ("if record.load.records != expected:", "if False:", by_outcome.test_a_load_that_fell_behind_makes_a_run_invalid),
    ]),
    (failures, "_silence", [
        ("silence_s - twin_silence_s", "twin_silence_s - silence_s", by_outcome.test_output_that_stopped_and_came_back),
    ]),
    (outcome, "_verdict", [
        ("excused and (missing or extra)", "missing or extra", by_outcome.test_results_that_had_no_time_to_come_decide_nothing_and_wrong_ones_do),
        ("None if excused and (missing or extra) else False", "False", by_outcome.test_results_that_had_no_time_to_come_decide_nothing_and_wrong_ones_do),
    ]),
    (trust, "missed", [
        ("if victim.reached]", "if not victim.reached]", by_failures.test_a_kill_where_nothing_ran_says_nothing),
    ]),
    (outcome, "judge", [
        ("failure.without_times for", "failure for", by_outcome.test_a_run_that_is_not_timed_keeps_no_time_that_cannot_be_trusted),
    ]),
    (resources, "_of_processes", [
        ('usage.dropna(subset=["cpu_s", "resident_bytes"])', "usage.fillna(0.0)", by_outcome.test_a_sample_that_could_not_be_taken_is_left_out),
    ]),
    (resources, "_increase", [
        ("value < high / 2 and highest < high", "False", by_outcome.test_a_counter_that_begins_anew_has_used_what_it_says),
        ("value < high / 2 and ", "", by_outcome.test_a_counter_that_was_read_while_a_process_ended_has_not_begun_anew),
        (" and highest < high", "", by_outcome.test_a_counter_that_was_read_while_a_process_ended_has_not_begun_anew),
    ]),
    (claim, "judge", [
        ("if missing is not None and not", "if False and not", by_verdicts.test_one_failed_run_withdraws_every_claim_that_held),
        ("finding.held is False and finding.per_cell", "finding.per_cell", by_verdicts.test_one_failed_run_withdraws_every_claim_that_held),
        ("finding.held is False and finding.per_cell", "finding.held is False", by_claims.test_a_cell_refutes_on_a_part_of_the_grid_and_nothing_else_is_decided_there),
    ]),
    (assessment, "_undecided", [
        ("verdict.kind is ClaimKind.INVARIANT", "True", by_verdicts.test_the_smoke_profile_decides_invariants_only),
        ("verdict.kind is ClaimKind.INVARIANT", "False", by_verdicts.test_the_smoke_profile_decides_invariants_only),
    ]),
    (assessment, "_broken", [
        ("verdict.held is False", "verdict.held is None", by_verdicts.test_a_newer_record_hides_no_broken_invariant),
    ]),
    # What is read
    (collector, "Collector.finish", [
        ("(m.arrival_ms, m.partition, m.offset)", "(m.partition, m.arrival_ms, m.offset)", by_collector.test_everything_is_read_in_the_order_of_arrival),
    ]),
    (collector, "Collector._read", [
        ("message.timestamp()[1]", "0", by_collector.test_everything_is_read_in_the_order_of_arrival),
        ("headers.get(self._header", "headers.get('another'", by_collector.test_everything_is_read_in_the_order_of_arrival),
    ]),
)  # fmt: skip
"""The right text, the wrong one and the test that must notice, by module and place."""

MUTATIONS = tuple(
    Mutation(module, place, *mistake)
    for module, place, mistakes in _MISTAKES
    for mistake in mistakes
)
