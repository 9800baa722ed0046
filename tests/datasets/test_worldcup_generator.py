"""The generator against the statistics that it claims to be calibrated to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.blocks import BLOCK_RECORDS
from datasets.worldcup import facts
from datasets.worldcup.format import RECORD, decode, first_impossible
from datasets.worldcup.generator import START_S, Day66
from harness.errors import UsageError

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
        "from datasets.worldcup.generator import Day66; import sys;"
        "sys.stdout.buffer.write(b''.join(Day66(seed=7, partitions=3).payloads(1, 9, 99)))"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    assert done.stdout == b"".join(Day66(seed=7, partitions=3).payloads(1, 9, 99))


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


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(UsageError, match="31 partitions cannot share 30 servers"):
        Day66(seed=1, partitions=31)
    with pytest.raises(UsageError, match="cannot start at"):
        Day66(seed=1, partitions=1, start_share=1.0)
