from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.worldcup.archive import CHUNK_RECORDS, find, read, read_all
from datasets.worldcup.format import CLOSING_S, RECORD, Records, decode
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


def test_decoding_copies_nothing() -> None:
    data = bytearray(possible_records(3).tobytes())
    records = decode(data)
    assert np.shares_memory(records, np.frombuffer(data, dtype=np.uint8))


@pytest.mark.parametrize("name", ["wc_day66_1", "wc_day66_1.gz", "some.log"])
@pytest.mark.parametrize("chunk_records", [1, 7, CHUNK_RECORDS])
def test_plain_and_compressed_logs_read_the_same(
    tmp_path: Path, name: str, chunk_records: int
) -> None:
    records = possible_records(50)
    path = write_log(tmp_path / name, records)
    np.testing.assert_array_equal(read_paths(path, chunk_records=chunk_records), records)


def test_a_log_of_several_gzip_members_is_one_log(tmp_path: Path) -> None:
    records = possible_records(40)
    data = records.tobytes()
    path = tmp_path / "wc_day66_1.gz"
    path.write_bytes(gzip.compress(data[:333]) + gzip.compress(data[333:]))
    np.testing.assert_array_equal(read_paths(path), records)


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


def test_chunks_say_where_they_are(tmp_path: Path) -> None:
    path = write_log(tmp_path / "wc_day66_1.gz", possible_records(20))
    [file] = find([path])
    assert [chunk.first for chunk in read(file, chunk_records=8)] == [0, 8, 16]


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


def test_every_field_at_its_limit_is_possible(tmp_path: Path) -> None:
    records = possible_records(3)
    records["method"], records["type"] = 8, 12
    records["status"] = 3 << 6 | 37
    records["server"] = 3 << 5 | 10
    records["size"] = records["client"] = records["object"] = 0xFFFF_FFFF
    np.testing.assert_array_equal(read_paths(write_log(tmp_path / "wc_day66_1", records)), records)


@pytest.mark.parametrize("at", [8, 14, 15])
def test_a_log_that_goes_back_in_time_is_refused(tmp_path: Path, at: int) -> None:
    # With chunks of seven records, 14 is the first record of a chunk.
    records = possible_records(30)
    records["timestamp"] = midday(66) + np.arange(30)
    records["timestamp"][at] -= 2
    path = write_log(tmp_path / "wc_day66_1", records)
    with pytest.raises(UsageError, match=rf"record {at} at offset {at * 20} .*not sorted by time"):
        read_paths(path)


def test_parts_that_overlap_in_time_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "wc_day66_1", possible_records(5, start_s=100))
    second = write_log(tmp_path / "wc_day66_2", possible_records(5, start_s=0))
    with pytest.raises(UsageError, match=r"wc_day66_2: record 0 .*not sorted by time") as caught:
        read_paths(tmp_path)
    assert str(second) in caught.value.what


def test_the_closing_minute_of_a_day_may_overlap_the_next_day(tmp_path: Path) -> None:
    late = possible_records(1, day=66, start_s=43_200)
    early = possible_records(1, day=67, start_s=-43_200)
    late["timestamp"], early["timestamp"] = midday(66) + 43_207, midday(67) - 43_200
    write_log(tmp_path / "wc_day66_1", late)
    write_log(tmp_path / "wc_day67_1", early)
    assert len(read_paths(tmp_path)) == 2


@pytest.mark.parametrize("rest", [1, 19])
@pytest.mark.parametrize("name", ["wc_day66_1", "wc_day66_1.gz"])
def test_a_log_cut_off_within_a_record_is_refused(tmp_path: Path, name: str, rest: int) -> None:
    data = possible_records(30).tobytes()[: 10 * 20 + rest]
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if path.suffix else data)
    with pytest.raises(UsageError, match=f"offset 200 has {rest} of its 20 bytes") as caught:
        read_paths(path)
    assert str(path) in caught.value.what


def test_a_gzip_stream_cut_off_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "wc_day66_1.gz", possible_records(1000))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(UsageError, match=r"cut off: its gzip stream ends within"):
        read_paths(path)


def test_a_gzip_stream_with_flipped_bits_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "wc_day66_1.gz", possible_records(1000))
    data = bytearray(path.read_bytes())
    data[-6] ^= 0xFF  # the checksum over everything
    path.write_bytes(data)
    with pytest.raises(UsageError, match="corrupt"):
        read_paths(path)


def test_a_gzip_name_without_gzip_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wc_day66_1.gz"
    path.write_bytes(possible_records(2).tobytes())
    with pytest.raises(UsageError, match="is not a gzip file"):
        read_paths(path)


@pytest.mark.parametrize("name", ["wc_day66_1", "wc_day66_1.gz"])
def test_an_empty_log_is_refused(tmp_path: Path, name: str) -> None:
    path = write_log(tmp_path / name, np.zeros(0, dtype=RECORD))
    with pytest.raises(UsageError, match="holds no records"):
        read_paths(path)


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        (["wc_day65_1", "wc_day67_1"], "day 66 is missing between wc_day65_1 and wc_day67_1"),
        (["wc_day66_1", "wc_day66_3"], "part 2 of day 66 is missing"),
        (["wc_day65_1", "wc_day66_2"], "part 1 of day 66 is missing"),
    ],
)
def test_a_hole_is_refused_unless_it_is_allowed(
    tmp_path: Path, present: list[str], missing: str
) -> None:
    for start_s, name in enumerate(present):
        day = int(name[6:8])
        write_log(tmp_path / name, possible_records(3, day=day, start_s=100 * start_s))
    with pytest.raises(UsageError, match=missing) as caught:
        find([tmp_path])
    assert "--allow-gaps" in caught.value.remedy
    assert len(read_paths(tmp_path, allow_gaps=True)) == 6


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


@pytest.mark.parametrize("day", [0, 93])
def test_a_day_outside_of_the_archive_is_refused(tmp_path: Path, day: int) -> None:
    path = write_log(tmp_path / f"wc_day{day}_1", possible_records(1))
    with pytest.raises(UsageError, match=f"no day {day}"):
        find([path])


@pytest.mark.parametrize("day", [1, 92])
def test_the_first_and_the_last_day_belong_to_the_archive(tmp_path: Path, day: int) -> None:
    path = write_log(tmp_path / f"wc_day{day}_1", possible_records(1, day=day))
    [file] = find([path])
    assert (file.day, file.part) == (day, 1)
    assert len(read_paths(path)) == 1


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
    assert [file.label for file in find(paths[::-1], allow_gaps=True)] == [first, second]


def test_a_part_may_begin_in_the_second_the_last_one_ended(tmp_path: Path) -> None:
    for part in (1, 2):
        records = possible_records(2)
        records["timestamp"] = midday(66)
        write_log(tmp_path / f"wc_day66_{part}", records)
    assert len(read_paths(tmp_path)) == 4


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
