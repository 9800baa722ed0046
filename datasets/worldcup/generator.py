"""Day 66 without its log: records drawn from what is published about it.

What is calibrated, and to what (`datasets.worldcup.facts`):

* requests per ten minutes, exactly, with a smooth rate inside them (a monotone cubic through the
  cumulative counts);
* requests per server: servers are dealt to partitions so that partitions weigh about the same,
  and a partition draws its servers by their shares;
* popularity: Zipf–Mandelbrot over 20,000 objects with exponent 3.04 and shift 198, the maximum
  likelihood fit to the genuine records. Its head is flat; a pure Zipf law would make the top 100
  of Q1 look robust against lost input that really changes it;
* method, status and type mix, response sizes by type, and about a thousand clients in any ten
  thousand requests, as in the genuine records.

A record depends on (seed, partition, index) alone. `stock/worldcup-fit` draws the fit."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from datasets.blocks import BlockSource, balanced, lookup_table
from datasets.worldcup.facts import (
    DAY_66,
    DAY_66_PER_SERVER,
    DAY_66_PER_TEN_MINUTES,
    DAY_66_REQUESTS,
    METHOD_COUNTS,
    STATUS_COUNTS,
    TYPE_COUNTS,
)
from datasets.worldcup.format import DAY_ONE_S, DAY_S, NO_SIZE, RECORD, Records
from harness.errors import UsageError

Floats = NDArray[np.float64]

OBJECTS = 20_000
EXPONENT, SHIFT = 3.04, 198.0
START_S = DAY_ONE_S + (DAY_66 - 1) * DAY_S
"""Midnight in Paris at the start of day 66, in Unix seconds."""
REPLAY_FACTOR = 48
"""The speed of the PPA papers' replay, relative to the day."""

_CLIENTS_AT_ONCE, _REQUESTS_PER_NEW_CLIENT = 920, 300
_GOLDEN = 0.6180339887498949
_SIZES: dict[int, tuple[float, float, float]] = {
    # type: median in bytes, standard deviation of its logarithm, largest; genuine records
    0: (12_009, 1.44, 179_150), 1: (914, 1.24, 48_517), 2: (129, 0.04, 139),
    4: (4_406, 0.07, 4_406), 6: (6_110, 2.31, 387_595), 8: (1_272_120, 0.88, 1_590_480),
    10: (4_930, 0.0, 4_930), 12: (12_143, 0.26, 55_584),
}  # fmt: skip
_NOT_MODIFIED, _NOT_FOUND, _FOUND = 13, 19, 11
_NOT_FOUND_BYTES, _FOUND_BYTES = 334, 218
_NOT_MODIFIED_WITHOUT_SIZE = 723 / 1102
"""Servers log no size for this share of their 304 answers, and 0 for the rest."""


def popularity() -> Floats:
    """Share of the requests by popularity rank, most requested first; sums to 1."""
    weights = (np.arange(1, OBJECTS + 1) + SHIFT) ** -EXPONENT
    return np.asarray(weights / weights.sum(), dtype=float)


class Day66(BlockSource):
    """Records of June 30, 1998, for ``partitions`` Kafka partitions.

    Parameters
    ----------
    seed
        Everything random follows from it.
    partitions
        1 to 30; a server's requests are all in one of them (`servers`).
    requests
        How many a whole day has; fewer than the published 73,291,868 make the same day thinner.
    start_share
        Where in the day's requests index 0 lies, 0 to 1; indices past the last request of the
        day go on with its first."""

    def __init__(
        self,
        *,
        seed: int,
        partitions: int,
        requests: int = DAY_66_REQUESTS,
        start_share: float = 0.0,
    ) -> None:
        if not 1 <= partitions <= len(DAY_66_PER_SERVER):
            raise UsageError(
                f"{partitions} partitions cannot share {len(DAY_66_PER_SERVER)} servers",
                remedy=f"give 1 to {len(DAY_66_PER_SERVER)} partitions",
            )
        if requests < 1 or not 0 <= start_share < 1:
            raise UsageError(
                f"a day of {requests} requests cannot start at {start_share} of them",
                remedy="give at least one request, and a share from 0 to below 1",
            )
        super().__init__(seed=seed, name="worldcup")
        self.partitions, self.requests, self.start_share = partitions, requests, start_share

    @cached_property
    def _assignment(self) -> NDArray[np.int64]:
        shares = np.array(list(DAY_66_PER_SERVER.values()), dtype=float)
        return balanced(shares, self.partitions)

    def servers(self, partition: int) -> list[int]:
        """Return the server bytes whose requests are in ``partition``."""
        bytes_ = np.array(list(DAY_66_PER_SERVER))
        return [int(byte) for byte in bytes_[self._assignment == partition]]

    def share(self, partition: int) -> float:
        """Return the share of the day's requests that is in ``partition``."""
        requests = sum(DAY_66_PER_SERVER[byte] for byte in self.servers(partition))
        return requests / DAY_66_REQUESTS

    @cached_property
    def _objects(self) -> _Objects:
        return _Objects(self._seed)

    @cached_property
    def _tables(self) -> dict[int, NDArray[np.int64]]:
        return {
            partition: lookup_table(
                np.array(
                    [DAY_66_PER_SERVER[byte] for byte in self.servers(partition)], dtype=float
                ),
                1 << 16,
            )
            for partition in range(self.partitions)
        }

    @cached_property
    def _clock(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Shares of the day's requests, and the second of the day at which each has come."""
        from scipy.interpolate import PchipInterpolator  # here: slow to import, and used but once

        counts = np.concatenate([[0], np.cumsum(DAY_66_PER_TEN_MINUTES)]).astype(float)
        curve = PchipInterpolator(np.arange(0, 1441, 10), counts)
        before = np.asarray(curve(np.arange(1441)), dtype=float)
        return before / before[-1], np.linspace(0.0, DAY_S, 1441)

    def draw(
        self, random: np.random.Generator, partition: int, indices: NDArray[np.int64]
    ) -> Records:
        records = np.empty(len(indices), dtype=RECORD)
        own = self.share(partition) * self.requests
        passed = (self.start_share + (indices + 0.5) / own) % 1.0  # of the day, before each record
        bits = random.integers(0, 1 << 62, len(indices))  # enough random bits for all fields
        seconds = np.interp(passed, *self._clock)
        records["timestamp"] = START_S + np.minimum(seconds, DAY_S - 1).astype(np.int64)
        servers = np.array(self.servers(partition))
        records["server"] = servers[self._tables[partition][bits & 0xFFFF]]
        rank = self._objects.ranks[(bits >> 16) & 0xFFFFF]
        records["object"] = self._objects.ids[rank]
        records["type"] = self._objects.types[rank]
        status = _STATUS[(bits >> 36) & 0xFFFF]
        records["status"] = status
        records["size"] = self._sizes(rank, status, random)
        records["method"] = _METHOD[bits >> 52]
        newest = (passed * self.requests / _REQUESTS_PER_NEW_CLIENT).astype(np.int64)
        records["client"] = newest + random.integers(0, _CLIENTS_AT_ONCE, len(indices))
        return records

    def _sizes(
        self, rank: NDArray[np.int64], status: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        sizes = self._objects.sizes[rank]
        index = status & 0x3F
        sizes[index == _NOT_FOUND] = _NOT_FOUND_BYTES
        sizes[index == _FOUND] = _FOUND_BYTES
        unmodified = np.flatnonzero(index == _NOT_MODIFIED)
        unlogged = random.random(len(unmodified)) < _NOT_MODIFIED_WITHOUT_SIZE
        sizes[unmodified] = np.where(unlogged, NO_SIZE, 0)
        return sizes


class _Objects:
    """The 20,000 objects by popularity rank: which id, type and size each of them has."""

    def __init__(self, seed: int) -> None:
        self.ranks = lookup_table(popularity())
        """A rank for 20 random bits."""
        random = np.random.default_rng(seed)
        self.ids = random.permutation(OBJECTS)
        # A low-discrepancy sequence along the ranks gives every stretch of the popularity law
        # the same mix, so that a type's share of the requests does not hang on a few objects.
        sequence = (np.arange(OBJECTS) * _GOLDEN + random.random()) % 1.0
        types = np.array(list(TYPE_COUNTS))
        bounds = np.cumsum(list(TYPE_COUNTS.values())) / sum(TYPE_COUNTS.values())
        self.types = types[np.minimum(np.searchsorted(bounds, sequence), len(types) - 1)]
        self.sizes = np.zeros(OBJECTS, dtype=np.int64)
        for kind, (median, spread, largest) in _SIZES.items():
            of_kind = np.flatnonzero(self.types == kind)
            quantile = (np.arange(len(of_kind)) * _GOLDEN + random.random()) % 1.0
            sizes = median * np.exp(spread * ndtri(np.clip(quantile, 1e-9, 1 - 1e-9)))
            self.sizes[of_kind] = np.minimum(sizes, largest)


def _mix(counts: dict[int, int], size: int) -> NDArray[Any]:
    values = np.array(list(counts), dtype=np.int64)
    return values[lookup_table(np.array(list(counts.values()), dtype=float), size)]


_STATUS = _mix(dict(STATUS_COUNTS), 1 << 16)
_METHOD = _mix(dict(METHOD_COUNTS), 1 << 10)
