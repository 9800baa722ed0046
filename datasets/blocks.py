"""Random records by position: they come in blocks with seeds of their own.

A record depends on (seed, partition, index) alone, never on earlier calls, so a load generator may
start anywhere and a second process makes the same records. Drawing a block of thousands at once
keeps that affordable: the seed of a block costs as much as a hundred records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.seeds import generator

BLOCK_RECORDS = 1 << 14


class BlockSource(ABC):
    """A `RecordSource` whose records are all of one size and are made a block at a time."""

    def __init__(self, *, seed: int, name: str, block_records: int = BLOCK_RECORDS) -> None:
        self._seed, self._name, self._size = seed, name, block_records
        self._cached = lru_cache(maxsize=64)(self._block)

    @abstractmethod
    def draw(
        self, random: np.random.Generator, partition: int, indices: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return the records of ``partition`` at ``indices`` (consecutive), one array item each.

        Items are encoded already: a structured dtype, or rows of bytes viewed as one void."""

    def _block(self, partition: int, block: int) -> NDArray[Any]:
        random = generator(self._seed, self._name, partition, block)
        indices = np.arange(block * self._size, (block + 1) * self._size)
        return self.draw(random, partition, indices)

    def records(self, partition: int, start_index: int, count: int) -> NDArray[Any]:
        """Return ``count`` records of ``partition`` from ``start_index`` on as an array."""
        first, last = start_index // self._size, (start_index + count - 1) // self._size
        blocks = [self._cached(partition, block) for block in range(first, max(first, last) + 1)]
        joined = blocks[0] if len(blocks) == 1 else _join(blocks)
        offset = start_index - first * self._size
        return joined[offset : offset + count]

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        """Return the same records as the values on the wire."""
        payloads: list[bytes] = _plain(self.records(partition, start_index, count)).tolist()
        return payloads


def _join(blocks: list[NDArray[Any]]) -> NDArray[Any]:
    # As plain bytes: numpy would bring the fields of big-endian records into native order.
    dtype = blocks[0].dtype
    joined: NDArray[Any] = np.concatenate([_plain(block) for block in blocks]).view(dtype)
    return joined


def _plain(records: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(records).view(f"V{records.dtype.itemsize}")


def balanced(weights: NDArray[np.float64], parts: int) -> NDArray[np.int64]:
    """Return a part (0 to ``parts`` − 1) for every weight, so that the parts weigh about the same.

    The heaviest is first, each goes to the lightest part so far; ties go to the lower number."""
    assignment = np.zeros(len(weights), dtype=np.int64)
    loads = np.zeros(parts)
    for item in np.argsort(-weights, kind="stable"):
        lightest = int(np.argmin(loads))
        assignment[item] = lightest
        loads[lightest] += weights[item]
    return assignment


def lookup_table(weights: NDArray[np.float64], size: int = 1 << 20) -> NDArray[np.int64]:
    """``table[r]`` for a uniform ``r`` below ``size`` draws an item by its weight.

    Exact to 1/``size``; one gather a draw instead of a search. ``size`` is a power of two."""
    bounds = np.cumsum(weights) / weights.sum()
    positions = (np.arange(size) + 0.5) / size
    return np.minimum(np.searchsorted(bounds, positions), len(weights) - 1)
