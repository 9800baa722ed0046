from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from datasets.worldcup import facts
from datasets.worldcup.archive import find, read_all
from datasets.worldcup.format import NO_SIZE
from datasets.worldcup.parquet import SCHEMA, to_arrow
from datasets.worldcup.summary import Summary, compare, summarize
from tests.datasets.logs import possible_records, write_log


def summary_of(*paths: Path, chunk_records: int = 100) -> Summary:
    return summarize(read_all(find(paths), chunk_records=chunk_records))


@pytest.mark.parametrize("chunk_records", [1, 100, 10_000])
def test_a_summary_counts_what_a_loop_counts(tmp_path: Path, chunk_records: int) -> None:
    first = possible_records(250, seed=1)
    second = possible_records(250, seed=2, start_s=100)
    second["object"][:3] = 2**32 - 1  # far above the archive's ids, and still counted
    write_log(tmp_path / "wc_day66_1.gz", first)
    write_log(tmp_path / "wc_day66_2", second)
    summary = summary_of(tmp_path, chunk_records=chunk_records)
    both = np.concatenate([first, second])
    assert (summary.records, summary.first_timestamp) == (500, both["timestamp"].min())
    assert summary.last_timestamp == both["timestamp"].max()
    assert sum(summary.per_ten_minutes.values()) == 500
    assert summary.servers == dict(sorted(Counter(both["server"].tolist()).items()))
    counts = Counter(both["object"].tolist())
    expected = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    assert summary.top_objects(1000) == expected
    assert summary.top_objects(5) == expected[:5]


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


def test_published_numbers_agree_with_each_other() -> None:
    assert sum(facts.DAY_66_PARTS) == facts.DAY_66_REQUESTS
    assert sum(facts.DAY_66_PER_SERVER.values()) == facts.DAY_66_REQUESTS
    assert facts.DAY_66_PER_TEN_MINUTES.sum() == facts.DAY_66_REQUESTS
    assert len(facts.DAY_66_PER_TEN_MINUTES) == 144
    for counts in (facts.METHOD_COUNTS, facts.STATUS_COUNTS, facts.TYPE_COUNTS):
        assert sum(counts.values()) == 10_000
