"""Records as text of fixed width: comma-separated decimal numbers with leading zeros.

Anyone can read such a record, Spark takes it apart with ``substring`` and ``cast``, and numpy
writes and reads a million of them without a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError

_ZERO, _COMMA = ord("0"), ord(",")


@dataclass(frozen=True, slots=True)
class Layout:
    """Field names and their widths in digits, in the order of the record."""

    widths: Mapping[str, int]

    @property
    def size(self) -> int:
        """The length of a record in bytes, commas included."""
        return sum(self.widths.values()) + len(self.widths) - 1

    def start(self, name: str) -> int:
        """Return the position of a field's first digit, from 0."""
        names = list(self.widths)
        before = names[: names.index(name)]
        return sum(self.widths[other] + 1 for other in before)

    def encode(self, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.void]:
        """One record per row of ``columns``, as an array of plain bytes items.

        Raises `UsageError` for a value that is negative or too wide for its field."""
        rows = len(next(iter(columns.values())))
        text = np.full((rows, self.size), _COMMA, dtype=np.uint8)
        for name, width in self.widths.items():
            values = np.asarray(columns[name])
            if rows and not 0 <= values.min() <= values.max() < 10**width:
                raise UsageError(
                    f"{name} from {values.min()} to {values.max()} does not fit into "
                    f"{width} digits",
                    remedy=f"keep {name} between 0 and {10**width - 1}",
                )
            start = self.start(name)
            rest = values.astype(np.uint32)
            for place in range(start + width - 1, start - 1, -1):
                rest, digit = np.divmod(rest, np.uint32(10))
                text[:, place] = digit + _ZERO
        return text.view(f"V{self.size}").reshape(rows)

    def decode(self, values: Sequence[bytes] | NDArray[np.uint8]) -> dict[str, NDArray[np.int64]]:
        """Return the columns of these records: bytes objects, or one array of shape ``(n, size)``.

        The records must be whole: leave out markers and other lengths before."""
        if isinstance(values, np.ndarray):
            text = values.reshape(-1, self.size)
        else:
            text = np.frombuffer(b"".join(values), dtype=np.uint8).reshape(-1, self.size)
        return {
            name: _number(text[:, self.start(name) : self.start(name) + width])
            for name, width in self.widths.items()
        }


def _number(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    number = np.zeros(len(digits), dtype=np.int64)
    for place in range(digits.shape[1]):
        number *= 10
        number += digits[:, place]
        number -= _ZERO
    return number
