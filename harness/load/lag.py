"""An uncapped histogram of the generator's lag behind its schedule, record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LATE_S = 0.1
"""A record sent later than this is late."""

LATE_SHARE = 0.01
"""More late records than this make a run invalid."""

_SMALLEST_S, _PER_DECADE, _DECADES = 1e-5, 20, 9
_EDGES = _SMALLEST_S * 10 ** (np.arange(_PER_DECADE * _DECADES + 1) / _PER_DECADE)


class LagHistogram:
    """Counts per logarithmic bucket, 20 a decade (12 % wide), from 10 µs; the last is open.

    The maximum and the number of late records are exact."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(_EDGES) + 1, dtype=np.int64)
        self._late = 0
        self.records = 0
        self.largest_s = 0.0

    def add(self, lags_s: NDArray[np.float64]) -> None:
        """Count these lags; a negative one (a clock that was set back) counts as none."""
        if not len(lags_s):
            return
        buckets = np.searchsorted(_EDGES, lags_s, side="right")
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._late += int((lags_s > LATE_S).sum())
        self.records += len(lags_s)
        self.largest_s = max(self.largest_s, float(lags_s.max()))

    def quantile_s(self, share: float) -> float:
        """Return an upper bound of the quantile, at most 12 % above it."""
        if not self.records:
            return 0.0
        rank = np.searchsorted(np.cumsum(self._counts), share * self.records)
        return min(float(_EDGES[min(int(rank), len(_EDGES) - 1)]), self.largest_s)

    @property
    def late_share(self) -> float:
        """Share of the records that were sent later than the limit."""
        return self._late / self.records if self.records else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the numbers that a record keeps."""
        return {
            "records": self.records,
            "p50_s": self.quantile_s(0.5),
            "p99_s": self.quantile_s(0.99),
            "max_s": self.largest_s,
            "late_share": self.late_share,
        }
