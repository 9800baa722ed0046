"""Quantities as people write and read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.text import format_duration, parse_bytes, parse_duration_s, parse_share
from tests.levels import amount

DURATIONS = st.floats(min_value=1e-12, max_value=1e12, allow_subnormal=False)
UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def read(text: str) -> float:
    number, unit = text.removeprefix("under ").split()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"), (1.6, "1.6 s"), (1200, "20 min"), (0.9996, "1 s"), (59.97, "1 min"),
        (3599.0, "1 h"), (1e-10, "under 0.001 µs"), (86400 * 123456, "123456 d"),
        (0.00012, "120 µs"), (-1.6, "-1.6 s"), (86399.0, "1 d"), (13.5 * 60, "13.5 min"),
    ],
)  # fmt: skip
def test_in_the_unit_a_reader_would_choose(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


@given(DURATIONS, DURATIONS)
@settings(max_examples=amount(300))
def test_a_longer_duration_never_reads_shorter(one: float, other: float) -> None:
    short, long = sorted((one, other))
    assert read(format_duration(short)) <= read(format_duration(long)) * (1 + 1e-12)


def test_no_time_at_all_is_a_duration_only_where_it_is_allowed() -> None:
    assert parse_duration_s("0s", name="--delay", zero=True) == 0.0
    with pytest.raises(UsageError, match=r"--cost: '0s' is not above zero"):
        parse_duration_s("0s", name="--cost")
    with pytest.raises(UsageError, match=r"--delay: '-1s' is negative"):
        parse_duration_s("-1s", name="--delay", zero=True)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (parse_share, "50%", 0.5), (parse_share, " 0.3 ", 0.3), (parse_share, "1", 1.0),
        (parse_share, "0", 0.0), (parse_share, ".5", 0.5), (parse_bytes, "50gb", 50e9),
        (parse_bytes, "50G", 50e9), (parse_bytes, "2mib", 2.0**21),
        (parse_bytes, "1.5GiB", 1.5 * 2**30), (parse_duration_s, "30m", 1800.0),
    ],
)  # fmt: skip
def test_a_quantity_is_read_as_people_write_it(
    read: Callable[..., float], text: str, value: float
) -> None:
    assert read(text, name="--option") == value


@pytest.mark.parametrize(
    ("read", "words", "texts"),
    [
        (parse_share, "not a share", ["50", "120%", "half", "-1"]),
        (parse_bytes, "not an amount of data", ["4", "GB", "-1GB", "0GB", "4 apples"]),
    ],
)
def test_another_text_is_answered_with_what_to_write(
    read: Callable[..., float], words: str, texts: Sequence[str]
) -> None:
    for text in texts:
        with pytest.raises(UsageError, match=words) as error:
            read(text, name="--option")
        assert "write" in error.value.remedy, text
