"""The input of a run: the log's decoder, its generator, and the load generator's own work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.nightly.conftest import Measure

RECORDS = 2_000_000
SENT = 20_000


def test_decode_log(measure: Measure, tmp_path: Path) -> None:
    import numpy as np

    from datasets.worldcup.archive import find, read_all
    from datasets.worldcup.format import DAY_ONE_S, DAY_S, RECORD

    random = np.random.default_rng(66)
    records = np.zeros(RECORDS, dtype=RECORD)
    records["timestamp"] = DAY_ONE_S + 65 * DAY_S + np.sort(random.integers(0, 3600, RECORDS))
    records["client"] = random.integers(0, 100_000, RECORDS)
    records["object"] = random.zipf(1.5, RECORDS) % 20_000
    path = tmp_path / "wc_day66_1"
    path.write_bytes(records.tobytes())
    files = find([path])
    measure(lambda: sum(len(chunk.records) for chunk in read_all(files)))


def test_generate_log(measure: Measure) -> None:
    from datasets.worldcup.generator import Day66

    def make() -> None:
        source = Day66(seed=66, partitions=2)
        for start in range(0, 50_000, 10_000):
            source.payloads(0, start, 10_000)

    measure(make)


class _Lines:
    """Records that cost nothing to make, so that only the generator's own work is measured."""

    def build(self) -> _Lines:
        return self

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        return [b"the quick brown fox jumps over the lazy dog"] * count


class _Sink:
    """A producer that takes every record and forgets it."""

    def produce(self, *arguments: Any, **named: Any) -> None:
        pass

    def __len__(self) -> int:
        return 0


def test_load_generator(measure: Measure) -> None:
    from harness.load.child import _Sender
    from harness.load.plan import Stream
    from harness.load.profile import RateProfile

    lines: Any = _Lines()
    stream = Stream(
        topic="lines", partitions=2, rate=RateProfile.constant(10_000, 10), records=lines
    )

    def send() -> None:
        sink: Any = _Sink()
        sender = _Sender(stream, sink, 0.0)  # long overdue: everything is sent at once
        while sender.sent < SENT:
            sender.advance()

    measure(send)


def test_codec(measure: Measure) -> None:
    import pyarrow as pa

    from harness.hosting.codec import decode, encode

    words = ["failover", "rack", "checkpoint", "replica"] * 500
    table = pa.table({"word": words, "count": list(range(len(words)))})
    state = {"finished": [table, table], "position": 17, "counts": {"a": 1, "b": 2}}

    def both_ways() -> None:
        for _ in range(100):
            decode(encode(table))
            decode(encode(state))

    measure(both_ways)
