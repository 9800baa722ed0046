"""The generator against the statistics that it claims to be calibrated to."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.blocks import BLOCK_RECORDS, balanced, lookup_table
from datasets.worldcup import facts
from datasets.worldcup.format import NO_SIZE, RECORD, decode, first_impossible
from datasets.worldcup.generator import START_S, Day66, popularity, requests_by_minute
from harness.errors import UsageError
from tests.datasets.logs import GENUINE, genuine_log
from tests.levels import amount

SEED = 66


SOURCE = Day66(seed=SEED, partitions=4, requests=10**6)
FIRST = SOURCE.payloads(3, 0, 2 * BLOCK_RECORDS + 40)


@given(st.integers(0, 2 * BLOCK_RECORDS), st.integers(0, 40))
@settings(max_examples=20, deadline=None)
def test_a_record_depends_on_its_place_alone(start: int, count: int) -> None:
    fresh = Day66(seed=SEED, partitions=4, requests=10**6)
    assert fresh.payloads(3, start, count) == FIRST[start : start + count]


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "from datasets.worldcup.generator import Day66; import hashlib;"
        "print(hashlib.sha256(b''.join(Day66(seed=7, partitions=3).payloads(1, 9, 999)))"
        ".hexdigest())"
    )
    root = Path(__file__).parents[2]
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert Day66(seed=7, partitions=3).payloads(1, 9, 9) != SOURCE.payloads(1, 9, 9)


def test_generated_records_could_stand_in_the_archive() -> None:
    data = b"".join(SOURCE.payloads(2, 0, 50_000))
    records = decode(data)
    assert records.dtype == RECORD
    impossible = first_impossible(records, range_s=(START_S, START_S + 86_399), not_before_s=0)
    assert impossible is None


def test_ten_minute_counts_are_the_published_ones() -> None:
    # A day with a hundredth of the requests; each partition may be off by one a slot.
    source = Day66(seed=SEED, partitions=2, requests=facts.DAY_66_REQUESTS // 100)
    slots = np.zeros(144)
    for partition in range(2):
        number = round(source.share(partition) * source.requests)
        seconds = source.records(partition, 0, number)["timestamp"].astype(int) - START_S
        slots += np.bincount(seconds // 600, minlength=144)
    np.testing.assert_allclose(slots, facts.DAY_66_PER_TEN_MINUTES / 100, atol=4)


def test_minutes_follow_the_real_day() -> None:
    if not GENUINE.exists():
        pytest.skip("the per-minute counts of the real day are not redistributed")
    with (GENUINE.parent / "wc98_day66_per_minute.csv").open() as file:
        real = np.array([int(row["requests"]) for row in csv.DictReader(file)])
    error = np.abs(requests_by_minute() / real - 1)
    # The real rate itself changes by 3.8 % (one standard deviation) from minute to minute.
    assert error.mean() < facts.MINUTE_LOG_CHANGE_SD
    assert np.corrcoef(requests_by_minute(), real)[0, 1] > 0.999


def test_the_servers_of_day_50_are_those_of_the_genuine_records() -> None:
    servers = decode(genuine_log().read_bytes())["server"]
    counted = {int(byte): int((servers == byte).sum()) for byte in np.unique(servers)}
    assert counted == facts.DAY_50_PER_SERVER


@pytest.mark.parametrize("partitions", [1, 2, 10, 20, 30])
def test_every_server_is_in_one_partition(partitions: int) -> None:
    source = Day66(seed=SEED, partitions=partitions)
    servers = [byte for partition in range(partitions) for byte in source.servers(partition)]
    assert sorted(servers) == sorted(facts.DAY_66_PER_SERVER)
    assert sum(map(source.share, range(partitions))) == pytest.approx(1)
    if partitions <= 2:
        assert source.share(0) * partitions == pytest.approx(1, abs=1e-3)


def test_servers_have_their_published_shares() -> None:
    source = Day66(seed=SEED, partitions=2)
    number = 400_000
    for partition in range(2):
        counts = np.bincount(source.records(partition, 0, number)["server"], minlength=256)
        for byte in source.servers(partition):
            share = facts.DAY_66_PER_SERVER[byte] / facts.DAY_66_REQUESTS / source.share(partition)
            deviation = np.sqrt(share * (1 - share) / number)
            assert abs(counts[byte] / number - share) < 5 * deviation


def test_ten_thousand_requests_look_like_the_genuine_ones() -> None:
    source = Day66(seed=SEED, partitions=2)
    halves = [source.records(partition, 30_000_000, 5_000) for partition in range(2)]
    records = np.concatenate(halves)
    counts = np.sort(np.bincount(records["object"]))[::-1]
    for number, share in facts.TOP_SHARES.items():
        assert counts[:number].sum() / 10_000 == pytest.approx(share, abs=0.05), number
    head = np.log(counts[:100])
    slope = np.polyfit(np.log(np.arange(1, 101)), head, 1)[0]
    assert -0.4 < slope < -0.15, "the head of the popularity law is nearly flat (-0.27)"
    assert 900 < np.count_nonzero(counts) < 1_300
    assert 950 < len(np.unique(records["client"])) < 1_100
    for field, expected in (
        ("method", facts.METHOD_COUNTS),
        ("status", facts.STATUS_COUNTS),
        ("type", facts.TYPE_COUNTS),
    ):
        found = np.bincount(records[field], minlength=256)
        for value, number in expected.items():
            assert found[value] == pytest.approx(number, abs=300), (field, value)
    sized = records["size"][((records["status"] & 63) == 2)].astype(float)
    assert np.median(sized) == pytest.approx(949, rel=0.3)
    assert sized.mean() == pytest.approx(5_370, rel=0.5)
    assert (records["size"] == NO_SIZE).sum() == pytest.approx(facts.NO_SIZE_COUNT, abs=100)


def test_popularity_is_a_distribution_that_falls_with_the_rank() -> None:
    assert popularity().sum() == pytest.approx(1)
    assert (np.diff(popularity()) < 0).all()


def test_the_popularity_law_is_the_one_the_genuine_records_follow() -> None:
    records = decode(genuine_log().read_bytes())
    real = np.sort(np.bincount(records["object"]))[::-1] / 10_000
    random = np.random.default_rng(SEED)
    drawn = np.sort(random.multinomial(10_000, popularity()))[::-1] / 10_000
    assert np.abs(np.cumsum(real)[:1000] - np.cumsum(drawn)[:1000]).max() < 0.05


def test_a_day_can_start_anywhere_and_goes_on() -> None:
    late = Day66(seed=SEED, partitions=1, requests=1_000, start_share=0.5)
    timestamps = late.records(0, 0, 1_000)["timestamp"].astype(int)
    assert timestamps[0] > START_S + 12 * 3600
    assert np.count_nonzero(np.diff(timestamps) < 0) == 1, "midnight comes once"


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(UsageError, match="31 partitions cannot share 30 servers"):
        Day66(seed=1, partitions=31)
    with pytest.raises(UsageError, match="cannot start at"):
        Day66(seed=1, partitions=1, start_share=1.0)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30).map(np.array), st.integers(1, 6))
@settings(max_examples=amount(50), deadline=None)
def test_balanced_parts_differ_by_one_item_at_most(weights: np.ndarray, parts: int) -> None:
    loads = np.bincount(balanced(weights, parts), weights=weights, minlength=parts)
    assert loads.max() - loads.min() <= weights.max() + 1e-9


def test_a_lookup_table_draws_by_weight() -> None:
    table = lookup_table(np.array([1.0, 0.0, 3.0]), 1 << 10)
    np.testing.assert_array_equal(np.bincount(table), [256, 0, 768])
