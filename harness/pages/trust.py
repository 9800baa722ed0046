"""Doubts about live measurements, which leave what they would decide undecided.

A run in doubt decides nothing, nor does one on a machine with too few cores for its load, nor a
comparison of rows that were measured at unlike speeds of the processor. What is counted, such as
lost results, and what must always hold is decided all the same. The runs that count decide alone
where every point has enough of them, and so do they for a claim about other rows, whose verdict and
numbers are the same without the runs in doubt. (Until 2026-11-28 a single such run left every claim
of its figure undecided.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.claims import Verdict
from harness.claims.claim import about_times
from harness.experiment import Experiment
from harness.measurement import Origin
from harness.results.record import TOO_FEW_CORES, Record
from harness.results.speed import unlike
from harness.results.store import Campaign


def sound(campaign: Campaign) -> Campaign:
    """Return the campaign without the runs that do not count for times."""
    counts = [r for r in campaign.records if not r.again and not r.values.get(TOO_FEW_CORES)]
    return replace(campaign, records=counts)


def alike(one: Verdict, other: Verdict) -> bool:
    """Return True if two verdicts on a claim have the same decision, by the same numbers."""
    first, second = ((v.held, v.sample, sorted(v.measured.items())) for v in (one, other))
    return repr(first) == repr(second)  # nan is unlike itself


def trusted(verdict: Verdict, experiment: Experiment, campaign: Campaign) -> Verdict:
    """Return the verdict, without a decision where a run behind it does not count for times.

    ``campaign``: the runs that the verdict rests on."""
    if experiment.origin is not Origin.MEASURED or not about_times(verdict) or verdict.held is None:
        return verdict
    records = campaign.valid
    open_verdict = replace(verdict, held=None, cause=None, sample=None)
    if why := _too_few_cores(records):
        return replace(open_verdict, why=why, samples=None)
    compared = records if experiment.measurement.scheduling.in_turns else []
    if why := _in_doubt(records) or unlike(compared):
        samples = campaign.samples if verdict.samples is None else verdict.samples
        return replace(open_verdict, why=why, samples=samples)
    return verdict


def _too_few_cores(records: Sequence[Record]) -> str | None:
    short = [str(why) for one in records if (why := one.values.get(TOO_FEW_CORES))]
    return f"in {len(short)} of {len(records)} runs: {short[0]}" if short else None


def _in_doubt(records: Sequence[Record]) -> str | None:
    doubts = [one.again for one in records if one.again]
    if not doubts:
        return None
    return f"{len(doubts)} of {len(records)} runs are in doubt after all attempts: {doubts[0]}"
