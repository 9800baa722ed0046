"""Records of any size, and how many of them fit."""

from __future__ import annotations

from workloads.sizes import fitting, mean_bytes


class Records:
    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        return [b"x" * 100 * (1 + number % 3) for number in range(start_index, start_index + count)]


def test_as_many_records_as_fit() -> None:
    assert mean_bytes(Records()) == 175
    assert fitting(Records(), 1750, 400) == 10
    assert fitting(Records(), 10**9, 400) == 400
    assert fitting(Records(), 1, 400) == 1
