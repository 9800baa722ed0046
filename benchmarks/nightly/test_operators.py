"""The vectorized operators of word count, one task after the other as a host runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.nightly.conftest import Measure

LINES = 5_000
SECOND_US = 1_000_000


def test_operators_word_count(measure: Measure) -> None:
    import pyarrow as pa

    from workloads import wordcount
    from workloads.toolkit.operators import SOURCE_SCHEMA, Timeline, timestamps

    timeline = Timeline(start_us=0, batch_us=SECOND_US, slide_us=SECOND_US, window_us=2 * SECOND_US)
    program = wordcount.program(timeline=timeline, depth=4, partitions=1, counters=1)
    line = b"the quick brown fox jumps over the lazy dog number "
    values = [line + str(number).encode() for number in range(LINES)]
    source = pa.table(
        [
            pa.array(values, pa.binary()),
            pa.array([0] * LINES, pa.int32()),
            pa.array(range(LINES), pa.int64()),
            timestamps([number * SECOND_US // LINES for number in range(LINES)]),
        ],
        schema=SOURCE_SCHEMA,
    )
    chain: list[Any] = [program.task(name, 0) for name in ("split", "lower", "count", "collect")]

    def run() -> None:
        states = [task.initial() for task in chain]
        for batch in range(2):
            moving = source
            for place, task in enumerate(chain):
                states[place], outputs = task.process(states[place], batch, [moving])
                moving = outputs[0]
            assert moving.num_rows > 0

    measure(run)
