"""How large records may be, and how many of them fit.

Tests: ``tests/workloads/test_own_cases.py``."""

from __future__ import annotations

from workloads.base import RecordSource

MOST_RECORD_BYTES = 16_000_000
"""The largest record, with its key and headers, that a broker of ours takes. One of an existing
cluster takes 1 MB by default (``message.max.bytes``)."""
FEW = 4
"""Records of which the size is measured."""


def mean_bytes(source: RecordSource) -> float:
    """Return the mean size of the first records of a source."""
    return sum(map(len, source.payloads(0, 0, FEW))) / FEW


def fitting(source: RecordSource, most_bytes: int, most: int) -> int:
    """Return how many records of a source have these many bytes at most, from 1 to ``most``."""
    return max(1, min(most, int(most_bytes / max(1.0, mean_bytes(source)))))
