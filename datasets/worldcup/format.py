"""The 20-byte record of the 1998 World Cup access logs, and what a possible one looks like.

A record is big endian without padding: four 32-bit numbers (timestamp, client, object, size)
and four bytes (method, status, type, server). `RECORD` is that layout as a numpy structured
dtype, so a log is decoded by viewing its bytes: nothing is copied and nothing is parsed.

Source: M. Arlitt and T. Jin, "1998 World Cup Web Site Access Logs", August 1998, the Internet
Traffic Archive; format as described in the archive's README."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RECORD = np.dtype(
    [
        ("timestamp", ">u4"),  # Unix seconds, GMT
        ("client", ">u4"),  # a dense number for each client, the same in the whole archive
        ("object", ">u4"),  # a dense number for each URL, the same in the whole archive
        ("size", ">u4"),  # bytes of the response; NO_SIZE where the server logged none
        ("method", "u1"),
        ("status", "u1"),  # two bits of HTTP version, six bits of status index
        ("type", "u1"),
        ("server", "u1"),  # three bits of region, five bits of server number
    ]
)
RECORD_BYTES = RECORD.itemsize
NO_SIZE = 0xFFFF_FFFF

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "OTHER")
TYPES = (
    "HTML", "IMAGE", "AUDIO", "VIDEO", "JAVA", "FORMATTED", "DYNAMIC", "TEXT", "COMPRESSED",
    "PROGRAMS", "DIRECTORY", "ICL", "OTHER",
)  # fmt: skip
STATUS_CODES = (
    *range(100, 102), *range(200, 207), *range(300, 306), *range(400, 416), *range(500, 506), None,
)  # fmt: skip
"""HTTP status by index; the last index stands for any other code."""
REGIONS = ("SANTA_CLARA", "PLANO", "HERNDON", "PARIS")
HIGHEST_SERVER_NUMBER = 10
"""The 33 servers of the four sites are numbered 0–10 within their site."""

DAY_ONE_S = 893_541_600
"""Midnight in Paris (GMT+2) at the start of day 1, April 26, 1998, in Unix seconds."""
FIRST_DAY, LAST_DAY = 1, 92
DAY_S = 86_400
CLOSING_S = 60
"""A few requests of a day carry the minute after its midnight (129 of them on day 66)."""

Records = NDArray[np.void]

_INDEX = np.arange(256)
_POSSIBLE_STATUS = np.isin(_INDEX & 0x3F, range(len(STATUS_CODES)))
_POSSIBLE_SERVER = np.isin(_INDEX >> 5, range(len(REGIONS))) & np.isin(
    _INDEX & 0x1F, range(HIGHEST_SERVER_NUMBER + 1)
)


def decode(buffer: Any) -> Records:
    """``buffer`` (bytes, a memory map, ...; a multiple of 20 bytes) as records, without a copy."""
    return np.frombuffer(buffer, dtype=RECORD)


def day_range_s(day: int | None) -> tuple[int, int]:
    """Earliest and latest timestamp that a record of ``day`` may carry, both included.

    Without a day (a file that is not named as the archive names them): of the whole archive."""
    first, last = (FIRST_DAY, LAST_DAY) if day is None else (day, day)
    start = DAY_ONE_S + (first - 1) * DAY_S
    return start, DAY_ONE_S + last * DAY_S + CLOSING_S - 1


def first_impossible(
    records: Records, *, range_s: tuple[int, int], not_before_s: int
) -> tuple[int, str] | None:
    """Return the place of the first record with an impossible field and the reason, or None.

    ``not_before_s`` is the timestamp of the record before the first one: a log only moves forward
    in time."""
    timestamps = records["timestamp"].astype(np.int64)
    backwards = np.empty(len(records), dtype=bool)
    backwards[:1] = timestamps[:1] < not_before_s
    np.less(timestamps[1:], timestamps[:-1], out=backwards[1:])
    wrong = {
        "timestamp": (timestamps < range_s[0]) | (timestamps > range_s[1]),
        "order": backwards,
        "method": records["method"] >= len(METHODS),
        "status": ~_POSSIBLE_STATUS[records["status"]],
        "type": records["type"] >= len(TYPES),
        "server": ~_POSSIBLE_SERVER[records["server"]],
    }
    found = [(int(np.argmax(mask)), name) for name, mask in wrong.items() if mask.any()]
    if not found:
        return None
    index, name = min(found, key=lambda item: item[0])
    earlier = int(timestamps[index - 1]) if index else not_before_s
    return index, _reason(name, records[index], range_s, earlier)


def _reason(name: str, record: Any, range_s: tuple[int, int], earlier: int) -> str:
    if name == "timestamp":
        low, high = range_s
        return f"timestamp {record['timestamp']} is outside of {low}–{high}"
    if name == "order":
        return f"timestamp {record['timestamp']} comes after {earlier}: not sorted by time"
    if name == "status":
        return f"status byte {record['status']} has index {record['status'] & 0x3F}, above 37"
    if name == "server":
        byte = int(record["server"])
        return (
            f"server byte {byte} means server {byte & 0x1F} of region {byte >> 5}: no such server"
        )
    highest = len(METHODS if name == "method" else TYPES) - 1
    return f"{name} {record[name]} is above {highest}"
