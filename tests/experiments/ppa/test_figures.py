"""Figures of the PPA papers: claims on the smoke grid, what intervals leave open, simulations."""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
import pytest

from experiments.ppa import _random, _recovery
from harness.claims import Verdict, Word
from harness.claims.samples import FEWEST
from harness.measurement import Context
from harness.pages.assessment import verdicts
from harness.protocol.scheme import Recovery
from harness.running.discovery import find
from harness.topology import named
from harness.topology.fidelity import Evaluator
from tests.experiments.smoke import SmokeContext, smoke_table

FIGURES = {experiment.id: experiment for experiment in find(["ppa"])}


def verdicts_of(name: str, table: pd.DataFrame) -> dict[str, Verdict]:
    return {each.id: each for each in verdicts(FIGURES[name], table.copy())}


@pytest.mark.parametrize(
    ("claim", "lead"),
    [("ahead", "lead"), ("joins", "over_next"), ("skew", "over_next_in_mean")],
)
def test_a_lead_within_its_interval_is_undecided(claim: str, lead: str) -> None:
    """Of a few seeds one refuted a sentence by a lead of -0.0003 over 100 topologies."""
    table = smoke_table(FIGURES["ppa/random-topologies"]).copy()
    known = table[lead].notna()
    table.loc[known, f"{lead}_half_width"] = 0.05
    expected = {0.1: Word.HOLDS, 0.005: Word.UNDECIDED, -0.0003: Word.UNDECIDED,
                -0.2: Word.DOES_NOT_HOLD}  # fmt: skip
    for value, word in expected.items():
        table.loc[known, lead] = value
        assert verdicts_of("ppa/random-topologies", table)[claim].word is word


@pytest.mark.parametrize(("of_greedy", "word"), [(0.42, Word.HOLDS), (0.2, Word.DOES_NOT_HOLD)])
def test_closeness_on_full_topologies_is_that_of_the_plans_by_increase(
    of_greedy: float, word: Word
) -> None:
    table = smoke_table(FIGURES["ppa/random-topologies"]).copy()
    full = table["variant"] == "full"
    for name, value in {"sa": 0.9, _random.BY_INCREASE: 0.4, "greedy": of_greedy}.items():
        mine = full & (table["planner"] == name)
        assert mine.any(), name
        table.loc[mine, "mean"] = value
    assert verdicts_of("ppa/random-topologies", table)["close-on-full"].word is word


def test_inputs_that_disagree_leave_open_whether_greedy_is_last() -> None:
    table = smoke_table(FIGURES["ppa/query-fidelity"])
    behind = table.assign(accuracy=table["planner"].map({"dp": 0.8, "sa": 0.8, "greedy": 0.5}))
    inputs = [behind.assign(repeat=number) for number in range(FEWEST)]

    def word(*ahead: int) -> Word:
        for number in ahead:
            mine = inputs[number]["planner"] == "greedy"
            inputs[number].loc[mine & (mine.index == mine.idxmax()), "accuracy"] = 0.9
        found = verdicts_of("ppa/query-fidelity", pd.concat(inputs, ignore_index=True))
        return found["greedy-last-in-accuracy"].word

    assert word() is Word.HOLDS
    assert word(0) is Word.UNDECIDED
    assert word(0, 1, 2, 3, 4, 5) is Word.DOES_NOT_HOLD


def test_a_sink_that_is_somewhere_ahead_and_nowhere_behind() -> None:
    """Of two seeds one refuted the sentence by a mean of 0.006 over ten topologies."""
    table = smoke_table(FIGURES["ppa/planner-readings"]).copy()
    lead, half = "lead_of_virtual_sink", "lead_of_virtual_sink_half_width"
    table[lead], table[half] = 0.0, 0.0
    first, last = table["ratio"] == 0.2, table["ratio"] == 0.8
    table.loc[first, lead] = 0.1
    expected = {0.0: Word.HOLDS, -0.006: Word.UNDECIDED, -0.2: Word.DOES_NOT_HOLD}
    for behind, word in expected.items():
        table.loc[last, [lead, half]] = behind, abs(behind) and 0.01
        assert verdicts_of("ppa/planner-readings", table)["virtual-sink"].word is word


def test_the_same_shapes_for_every_variant() -> None:
    context = cast(Context, SmokeContext(FIGURES["ppa/random-topologies"]))
    joins = _random.PANELS["d"][1]
    plain, joined = (_random.topologies(spec, context, 3) for spec in joins.values())
    assert [each.edges for each in plain] == [each.edges for each in joined]


def test_half_of_the_trees_are_complete() -> None:
    topology = named.recovery()
    alive = np.zeros(topology.task_count, dtype=np.bool_)
    alive[: _recovery.SOURCES] = True
    alive[list(_recovery.half_of_the_trees())] = True
    assert len(_recovery.half_of_the_trees()) == 8
    assert Evaluator(topology).value(alive) == pytest.approx(0.5)


def test_a_failed_node_is_measured_from_its_detection_until_its_task_is_back() -> None:
    """A checkpoint one interval old: the state is fetched, then that much input done again."""
    contender = _recovery.Contender(label="CKP-10s", checkpoint_s=10)
    slow, fast = (
        _recovery.measure(
            _recovery.options_of(
                contender, window_s=10, rate=rate, failed=[16], phase=phase, seed=1
            )
        ).latency_s()
        for rate, phase in ((2_000, 0.9), (1_000, 0.1))
    )
    # 2 x rate tuples a second, 100 us each: 9 s of them against 1 s, on top of the checkpoint.
    assert slow == pytest.approx(9 * 0.4 + 40_000 * (5e-6 + 2e-6), abs=1.0)
    assert fast == pytest.approx(1 * 0.2 + 20_000 * (5e-6 + 2e-6), abs=0.5)


def test_source_replay_takes_one_window_however_many_operators_it_passes() -> None:
    storm = _recovery.Contender(label="Storm", recovery=Recovery.REPLAY)
    recovered = _recovery.measure(
        _recovery.options_of(
            storm, window_s=10, rate=1_000, failed=_recovery.SYNTHETIC, phase=0.5, seed=1
        )
    )
    # every task reads 10 s of 2,000 tuples a second, 100 us each, one batch behind the one above
    assert recovered.latency_s() == pytest.approx(10 * 0.2 + 3 * 0.2, abs=0.3)


def test_the_longer_between_synchronizations_the_more_a_replica_sends_at_takeover() -> None:
    """It sends all that its primary had not reported (ICDE VI-A), and is itself back as soon."""
    late = [
        _recovery.measure(
            _recovery.options_of(
                _recovery.Contender(label="Active", replicated=_recovery.SYNTHETIC, trim_s=trim_s),
                window_s=10, rate=1_000, failed=_recovery.SYNTHETIC, phase=0.5, seed=1,
            )
        )
        for trim_s in (5, 30)
    ]  # fmt: skip
    assert late[0].latency_s() == pytest.approx(late[1].latency_s(), abs=0.01)
    assert late[0].resumed_s < late[1].resumed_s - 0.05


def test_phases_spread_evenly() -> None:
    phases = sorted(_recovery.phase_of(repeat) for repeat in range(10))
    assert phases[0] >= 0
    assert phases[-1] < 1
    assert max(np.diff(phases)) < 0.2
