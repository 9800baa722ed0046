from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from datasets.worldcup import facts
from datasets.worldcup.archive import find, read_all
from datasets.worldcup.format import NO_SIZE, STATUS_CODES
from datasets.worldcup.parquet import SCHEMA, to_arrow
from datasets.worldcup.summary import Summary, compare, summarize
from tests.datasets.logs import genuine_log, possible_records, write_log


def summary_of(*paths: Path, chunk_records: int = 100) -> Summary:
    return summarize(read_all(find(paths), chunk_records=chunk_records))


def test_published_numbers_agree_with_each_other() -> None:
    assert sum(facts.DAY_66_PARTS) == facts.DAY_66_REQUESTS
    assert sum(facts.DAY_66_PER_SERVER.values()) == facts.DAY_66_REQUESTS
    assert facts.DAY_66_PER_TEN_MINUTES.sum() == facts.DAY_66_REQUESTS
    assert len(facts.DAY_66_PER_TEN_MINUTES) == 144
    for counts in (facts.METHOD_COUNTS, facts.STATUS_COUNTS, facts.TYPE_COUNTS):
        assert sum(counts.values()) == 10_000


def test_mixes_are_those_of_the_genuine_records() -> None:
    [chunk] = read_all(find([genuine_log()]))
    for field, counts in (
        ("method", facts.METHOD_COUNTS),
        ("status", facts.STATUS_COUNTS),
        ("type", facts.TYPE_COUNTS),
    ):
        assert Counter(chunk.records[field].tolist()) == counts
    assert (chunk.records["size"] == NO_SIZE).sum() == facts.NO_SIZE_COUNT


def test_a_summary_counts_what_a_loop_counts(tmp_path: Path) -> None:
    first = possible_records(250, seed=1)
    second = possible_records(250, seed=2, start_s=100)
    second["object"][:3] = 2**32 - 1  # far above the archive's ids, and still counted
    write_log(tmp_path / "wc_day66_1.gz", first)
    write_log(tmp_path / "wc_day66_2", second)
    summary = summary_of(tmp_path)
    both = np.concatenate([first, second])
    assert (summary.records, summary.first_timestamp) == (500, both["timestamp"].min())
    assert summary.last_timestamp == both["timestamp"].max()
    assert summary.servers == dict(sorted(Counter(both["server"].tolist()).items()))
    counts = Counter(both["object"].tolist())
    expected = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    assert summary.top_objects(1000) == expected
    assert summary.top_objects(5) == expected[:5]


def test_ten_minutes_of_a_day_start_at_midnight_in_paris(tmp_path: Path) -> None:
    log = write_log(tmp_path / "wc_day66_1", possible_records(10, start_s=-1800))
    assert summary_of(log).per_ten_minutes == {(66, 6 * 11 + 3): 10}


def test_parts_are_compared_with_what_was_published(tmp_path: Path) -> None:
    for part in (1, 2):
        write_log(tmp_path / f"wc_day66_{part}", possible_records(10, start_s=100 * part))
    summary, files = summary_of(tmp_path), find([tmp_path])
    comparisons = compare(summary, files)
    assert [(item.what, item.found, item.equal) for item in comparisons] == [
        ("day 66, part 1", 10, False),
        ("day 66, part 2", 10, False),
    ]


def test_a_whole_day_66_is_compared_by_server_and_time(tmp_path: Path) -> None:
    for part in range(1, 12):
        write_log(tmp_path / f"wc_day66_{part}", possible_records(10, start_s=100 * part))
    comparisons = compare(summary_of(tmp_path), find([tmp_path]))
    assert len(comparisons) == 11 + 1 + 30 + 144
    found = {item.what: item.found for item in comparisons}
    assert found["day 66"] == 110
    # Parts 1–5 lie within ten minutes of noon, the others after them.
    assert found["day 66, from 12:00 in Paris"] == 50
    assert found["day 66, from 12:10 in Paris"] == 60


def test_a_day_without_published_totals_compares_nothing(tmp_path: Path) -> None:
    log = write_log(tmp_path / "wc_day50_1", possible_records(10, day=50))
    assert compare(summary_of(log), find([log])) == []


def test_arrow_columns_are_what_the_bytes_say() -> None:
    records = possible_records(3)
    records["size"] = [7, NO_SIZE, 0]
    records["status"] = [2 << 6 | 8, 13, 37]
    batch = to_arrow(records, day=66, part=None).to_pydict()
    assert list(batch) == SCHEMA.names
    assert (batch["day"], batch["part"]) == ([66] * 3, [None] * 3)
    assert (batch["size"], batch["status"]) == ([7, None, 0], [206, 304, None])
    assert batch["http_version"] == [2, 0, 0]
    assert batch["server"] == records["server"].tolist()


def test_the_last_status_index_is_any_other_code() -> None:
    assert len(STATUS_CODES) == 38
    assert [STATUS_CODES[index] for index in (2, 8, 11, 13, 19, 31, 37)] == [
        200, 206, 302, 304, 404, 500, None,
    ]  # fmt: skip


@pytest.mark.parametrize("chunk_records", [1, 3, 10_000])
def test_a_summary_does_not_depend_on_the_chunks(tmp_path: Path, chunk_records: int) -> None:
    log = write_log(tmp_path / "wc_day66_1", possible_records(40))
    summary = summary_of(log, chunk_records=chunk_records)
    whole = summary_of(log, chunk_records=1000)
    assert summary.top_objects(50) == whole.top_objects(50)
    assert summary.servers == whole.servers
    assert summary.per_ten_minutes == whole.per_ten_minutes
