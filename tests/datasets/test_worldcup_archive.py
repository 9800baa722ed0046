from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.worldcup.archive import CHUNK_RECORDS, find, read_all
from datasets.worldcup.format import CLOSING_S, Records, decode
from harness.errors import UsageError
from tests.datasets.logs import genuine_log, midday, possible_records, write_log
from tests.levels import amount


def read_paths(*paths: Path, allow_gaps: bool = False, chunk_records: int = 7) -> Records:
    files = find(paths, allow_gaps=allow_gaps)
    chunks = list(read_all(files, chunk_records=chunk_records))
    return np.concatenate([chunk.records for chunk in chunks])


@given(
    st.lists(
        st.tuples(*[st.integers(0, 2**32 - 1)] * 4, *[st.integers(0, 255)] * 4),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=amount(50), deadline=None)
def test_a_record_is_four_words_and_four_bytes_big_endian(rows: list[tuple[int, ...]]) -> None:
    data = b"".join(struct.pack(">IIIIBBBB", *row) for row in rows)
    assert decode(data).tolist() == rows


@pytest.mark.parametrize("name", ["wc_day66_1", "wc_day66_1.gz", "some.log"])
@pytest.mark.parametrize("chunk_records", [1, 7, CHUNK_RECORDS])
def test_plain_and_compressed_logs_read_the_same(
    tmp_path: Path, name: str, chunk_records: int
) -> None:
    records = possible_records(50)
    path = write_log(tmp_path / name, records)
    np.testing.assert_array_equal(read_paths(path, chunk_records=chunk_records), records)


def test_a_directory_is_merged_by_day_and_part(tmp_path: Path) -> None:
    parts = {
        (day, part): possible_records(20, day=day, start_s=100 * part, seed=part)
        for day in (9, 10)
        for part in range(1, 12)
    }
    for (day, part), records in parts.items():
        write_log(tmp_path / f"wc_day{day}_{part}.gz", records)
    (tmp_path / "wc_day9_1.copyright").write_text("not a log")
    (tmp_path / "README").write_text("not a log")
    np.testing.assert_array_equal(read_paths(tmp_path), np.concatenate(list(parts.values())))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("method", 9, "method 9 is above 8"),
        ("type", 13, "type 13 is above 12"),
        ("status", 66 - 2 + 38, "status byte 102 has index 38, above 37"),
        ("server", 4 << 5, "server byte 128 means server 0 of region 4"),
        ("server", 11, "server byte 11 means server 11 of region 0"),
        ("timestamp", midday(67), "is outside of"),
        ("timestamp", 0, "is outside of"),
    ],
)
@pytest.mark.parametrize("name", ["wc_day66_1", "wc_day66_1.gz"])
def test_an_impossible_field_is_refused_with_file_and_offset(
    tmp_path: Path, name: str, field: str, value: int, said: str
) -> None:
    records = possible_records(30)
    records[field][17] = value
    path = write_log(tmp_path / name, records)
    with pytest.raises(UsageError) as caught:
        read_paths(path)
    assert f"{path}: record 17 at offset 340 is impossible" in caught.value.what
    assert said in caught.value.what


@pytest.mark.parametrize("at", [8, 14, 15])
def test_a_log_that_goes_back_in_time_is_refused(tmp_path: Path, at: int) -> None:
    # With chunks of seven records, 14 is the first record of a chunk.
    records = possible_records(30)
    records["timestamp"] = midday(66) + np.arange(30)
    records["timestamp"][at] -= 2
    path = write_log(tmp_path / "wc_day66_1", records)
    with pytest.raises(UsageError, match=rf"record {at} at offset {at * 20} .*not sorted by time"):
        read_paths(path)


LOG = possible_records(1000).tobytes()
PACKED = gzip.compress(LOG)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("wc_day66_1", LOG[:219], "offset 200 has 19 of its 20 bytes"),
        ("wc_day66_1.gz", gzip.compress(LOG[:219]), "offset 200 has 19 of its 20 bytes"),
        ("wc_day66_1.gz", PACKED[:-50], "cut off: its gzip stream ends within"),
        ("wc_day66_1.gz", PACKED[:-6] + bytes([PACKED[-6] ^ 0xFF]) + PACKED[-5:], "corrupt"),
        ("wc_day66_1.gz", LOG[:40], "is not a gzip file"),
        ("wc_day66_1", b"", "holds no records"),
        ("wc_day0_1", LOG[:20], "no day 0"),
    ],
)
def test_a_spoilt_log_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_paths(tmp_path / name)


def test_paths_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    log = write_log(tmp_path / "wc_day66_1", possible_records(1))
    copy = write_log(tmp_path / "wc_day66_1.gz", possible_records(1))
    day_93 = write_log(tmp_path / "wc_day93_1", possible_records(1))
    for paths, said in [
        ([tmp_path / "absent"], "does not exist"),
        ([tmp_path / "other"], "holds no wc_dayX_Y.gz"),
        ([log, copy], "are the same part"),
        ([day_93], "no day 93"),
        ([], "no log file was named"),
    ]:
        with pytest.raises(UsageError, match=said):
            find(paths)


@pytest.mark.parametrize(
    ("first", "second", "missing"),
    [
        ("wc_day66_1", "wc_day68_1", "day 67"),
        ("wc_day66_2", "wc_day67_2", "part 1 of day 67"),
        ("wc_day66_1", "wc_day66_4", "part 2 of day 66"),
        ("wc_day66_3", "wc_day68_2", "day 67"),
    ],
)
def test_a_gap_is_named_by_what_is_missing_first(
    tmp_path: Path, first: str, second: str, missing: str
) -> None:
    paths = [write_log(tmp_path / name, possible_records(1)) for name in (first, second)]
    with pytest.raises(UsageError, match=f"^{missing} is missing between {first} and {second}"):
        find(paths)
    assert [file.path.name for file in find(paths[::-1], allow_gaps=True)] == [first, second]


@pytest.mark.parametrize(("late_s", "fits"), [(CLOSING_S - 1, True), (CLOSING_S, False)])
def test_a_day_ends_with_its_closing_minute(tmp_path: Path, late_s: int, fits: bool) -> None:
    late, early = possible_records(1, day=66), possible_records(1, day=67)
    early["timestamp"] = midday(67) - 43_200
    late["timestamp"] = early["timestamp"] + late_s
    write_log(tmp_path / "wc_day66_1", late)
    write_log(tmp_path / "wc_day67_1", early)
    if fits:
        assert len(read_paths(tmp_path)) == 2
    else:
        with pytest.raises(UsageError, match="outside of"):
            read_paths(tmp_path)


def test_genuine_records_are_possible() -> None:
    records = read_paths(genuine_log())
    assert len(records) == 10_000
    assert (records["timestamp"][0], records["timestamp"][-1]) == (897_861_223, 897_861_265)
