"""What makes the numbers of a run worth nothing: reasons, as sentences that its record keeps.

A run is invalid if its output cannot be compared, or if the failure that was planned hit nothing;
a run whose load or clock was not on time keeps no times.
"""

from __future__ import annotations

import pandas as pd

from harness.judging.disturbances import BREAKS, reached
from harness.judging.passes import PassRecord

CLOCK_JUMP_S = 0.1
"""By how much wall and monotonic clock may part during a pass. A clock that is only slewed parts
by at most 0.5 ms a second."""


def incomparable(twin: PassRecord, failed: PassRecord, truth: pd.DataFrame) -> str | None:
    """Why the output cannot be compared."""
    if not len(truth):
        return (
            "the batch query over the same input has no result, so there is nothing to compare: "
            "the load was too short, or nothing the query looks for is in it"
        )
    if dropped(twin):
        return (
            f"{twin.name}: the watermark dropped {dropped(twin)} rows without a failure, so the "
            "query answered another question than the batch"
        )
    if not twin.drained:
        return f"{twin.name}: the engine did not deliver everything in time without a failure"
    for record in (twin, failed):
        expected = sum(stream.rate.records for stream in record.plan.streams)
        if record.load.records != expected:
            return f"{record.name}: {record.load.records} of {expected} records were sent"
    return None


def missed(failed: PassRecord) -> str | None:
    """A planned failure that was done, and hit a node on which nothing of the engine ran just
    then: nothing failed, and the run says nothing."""
    for done in failed.injected:
        idle = [victim.node for victim in done.victims if victim.reached and not victim.felt]
        if done.event.action in BREAKS and done.error is None and not reached(done) and idle:
            return (
                f"{failed.name}: the {done.event.action.value} of {done.event.target} at "
                f"{done.event.at_s:g} s hit {', '.join(idle)}, where nothing of the engine ran then"
            )
    return None


def mistimed(twin: PassRecord, failed: PassRecord) -> str | None:
    """Why the times cannot be trusted."""
    for record in (twin, failed):
        if record.load.invalid is not None:
            return f"{record.name}: {record.load.invalid}"
        if record.clock_jump_s is not None and abs(record.clock_jump_s) > CLOCK_JUMP_S:
            return (
                f"{record.name}: the wall clock jumped by {record.clock_jump_s:.3f} s during the "
                "pass, and every latency rests on it"
            )
    return None


def dropped(record: PassRecord) -> int:
    """Rows that came too late to count, by the engine's own word."""
    return int(record.batches["dropped_rows"].sum()) if len(record.batches) else 0
