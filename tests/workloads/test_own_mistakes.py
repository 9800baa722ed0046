"""Mistakes in a user's own workload: each gives one message, before any server starts.

What Spark refuses is in `tests.engines.test_refusals`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness.engines.structured import sample
from harness.engines.structured.local import sampled
from harness.errors import UsageError
from harness.load.plan import EventTime, whole_ms
from harness.load.profile import RateProfile
from harness.results.record import Profile
from harness.stock_kills.own import own
from harness.stock_kills.scale import check_options
from tests.there import there
from tests.workloads.kit import loaded, write_rows
from tests.workloads.test_own_document import FILE
from workloads.base import RecordedSource
from workloads.toolkit.recorded import Recording, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_US, STREAMS = 1_577_836_800_000_007, 'sources["orders"].isStreaming'


@pytest.mark.spark
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('("timestamp", "5 seconds")', '("timestamp", "7 seconds")'),
            "its watermark is 7 s behind",
        ),
        (('"10 seconds"), F.col', '"7 seconds"), F.col'), "its windows do not begin every 10 s"),
        (("json.dumps(order).encode()", 'b"no json"'), "gives no result for .* records"),
        (
            ('F.avg("order.value")', f"F.min(F.timestamp_micros(F.lit({AT_US} + {STREAMS})))"),
            "as a stream the query gives other results than as a batch",
        ),
        (("order = F.from_json", "order = undefined"), r"line \d+: NameError: "),
        (("    window_s=10", "    members=lambda: 1, window_s=10"), "members raised TypeError"),
        (('.where(F.col("orders") > 0)', ""), "markers become results, such as window_start="),
        (('identity=["window_start", "shop"]', 'identity=["window_start"]'), "share theirs"),
        (('"shop", "average", "orders")', '"average", "orders")'), "no column 'shop'"),
        (('F.col("orders") > 0', 'F.col("shop").isNotNull()'), "markers .* never reach .*`shop`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_in_the_query_is_named(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
    message: str,
) -> None:
    monkeypatch.setattr(sample, "RECORDS", 40)
    with pytest.raises(UsageError, match=message) as caught:
        sampled(spark, loaded(tmp_path / "orders.py", FILE, change))
    assert caught.value.remedy
    assert "\n" not in caught.value.what


def _options(tmp_path: Path, **more: object) -> dict[str, object]:
    path = tmp_path / "orders.py"
    path.write_text(FILE.replace("window_s=10", f"window_s={more.pop('window_s', 10)}"))
    return {"workload": path, **more}


def test_a_window_longer_than_a_run_may_take_names_the_speed(tmp_path: Path) -> None:
    options = _options(tmp_path, window_s=86_400)
    with pytest.raises(UsageError, match="one pass would last") as caught:
        check_options(Profile.QUICK, options)
    speed = there(re.search(r"--speed (\d+)", caught.value.remedy))
    check_options(Profile.QUICK, {**options, "speed": float(speed.group(1))})


def test_options_of_a_workload_need_one() -> None:
    with pytest.raises(UsageError, match="--rate is for a workload of your own"):
        check_options(Profile.QUICK, {"rate": 10.0})


def test_a_load_takes_rate_speed_partitions(tmp_path: Path) -> None:
    mine = there(own(Profile.QUICK, _options(tmp_path, rate=2000.0, speed=60.0, partitions=3)))
    assert (mine.rate_per_s, mine.event.speed) == (2000, 60)
    assert [source.partitions for source in mine.workload.sources] == [3]
    assert mine.event_at(0.5) == mine.event, "a generator is slower at the same speed"
    smoke = there(own(Profile.SMOKE, _options(tmp_path)))
    assert smoke.event.speed == 5, "a window every 2 s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"at": 1000, "n": 1}\n{broken\n', r"some\.jsonl, line 2 is not a JSON object"),
        ('{"n": 1}', "line 1 has no field 'at'"),
        ("[1]", "line 1 has no field 'at'"),
        ('{"at": null}', "record 1: 'at' is None"),
        ('{"at": "noon"}', "a value that is not a time"),
        (None, "there is no recording"),
    ],
)
def test_a_recording_that_cannot_be_read_is_named(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "some.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=message):
        Recording(str(path), "at", "ms", 1)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_every_format_gives_the_same_records(tmp_path: Path, ending: str) -> None:
    times_ms = (10_000, 10_500, 10_500, 12_000)
    rows = [{"at": at, "n": n} for n, at in enumerate(times_ms)]
    write_rows(tmp_path / f"rows.{ending}", rows[::-1])
    recording = Recording(str(tmp_path), "at", "ms", 2)
    assert isinstance(recording, RecordedSource)
    dealt = [[json.loads(v)["n"] for v in recording.payloads(p, 0, 2)] for p in (0, 1)]
    assert sorted(dealt[0] + dealt[1]) == [0, 1, 2, 3]
    assert recording.first_unix_s == 10
    again = recording.payloads(0, 2, 2)
    assert again == recording.payloads(0, 0, 2), "it begins anew"


@pytest.mark.parametrize("ends", ["jsonl", "csv"])
def test_a_record_keeps_its_recorded_time(tmp_path: Path, ends: str) -> None:
    """Two at the same instant, then none for an hour; times without a zone are in UTC."""
    hours = ["2026-10-25 00:30:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00"]
    path = write_rows(tmp_path / f"hours.{ends}", [{"at": at, "n": 1} for at in hours])
    recording = Recording(str(path), "at", "ms", 1)
    begin_s = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    assert recording.first_unix_s == begin_s
    rate = RateProfile(tuple(recording.rates(begin_s, 1.2, 3600.0)))
    event = EventTime(begin_unix_s=begin_s, speed=3600.0)
    sent_s = rate.intended_s(np.arange(rate.records))
    stamps = whole_ms(event.at(sent_s, 1_800_000_000.0)) - round(begin_s * 1000)
    assert stamps.tolist() == [0, 0, 3_600_000]
    due = {-0.1: 0, 0.0: 2, 0.9: 2, 1.0: 3, 1.2: 3}
    assert {at_s: rate.due(at_s) for at_s in due} == due


def test_a_recording_decides_rate_by_speed(tmp_path: Path) -> None:
    begin_ms = 1_790_000_000_000
    rows = [{"at": begin_ms + 100 * n} for n in range(50)]
    path = write_rows(tmp_path / "steady.jsonl", rows)
    text = FILE.replace(
        "WORKLOAD = Workload(",
        f"SOURCE = __import__('workloads.toolkit.recorded', fromlist=['x']).recorded("
        f"'orders', {str(path)!r}, time='at')\n\n\nWORKLOAD = Workload(",
    )
    begin = text.index("    sources=[\n")
    text = text[:begin] + "    sources=[SOURCE],\n" + text[text.index("    forms=") :]
    file = tmp_path / "replayed.py"
    assert loaded(file, text).sources == [recorded("orders", path, time="at")]
    fast = there(own(Profile.QUICK, {"workload": file, "speed": 3.0}))
    assert fast.rate_per_s == pytest.approx(30)
    assert fast.event.begin_unix_s == begin_ms / 1000, "its own event time"
    assert fast.event_at(0.5).speed == 1.5, "a lower rate is slower event time"
    given = there(own(Profile.QUICK, {"workload": file, "rate": 5.0, "partitions": 4}))
    assert given.event.speed == pytest.approx(0.5)
    assert given.workload.sources[0].records.parameters["partitions"] == 4
    with pytest.raises(UsageError, match="rate and speed go together"):
        own(Profile.QUICK, {"workload": file, "rate": 5.0, "speed": 2.0})
