"""Durations, amounts of data and shares as text, and the nearest name to a misspelt one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

from harness.errors import UsageError

Notify = Callable[[str], None]
"""A function for one short line of progress when something slow begins or moves on."""

_UNITS_S = {
    "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_SHORTEST_S, _LONGEST_S = 1e-9, 1e15
"""Ends of what is a duration: beyond them formulas under- and overflow, and no text has room."""


def parse_duration_s(text: str, *, name: str, zero: bool = False) -> float:
    """Return ``"1.6s"``, ``"20min"`` or ``"19d"`` in seconds; ``name`` is the user's word for it.

    ``m`` means minutes, as in other tools. Raises `UsageError` for a bare number, an unknown unit,
    a negative duration and, unless ``zero`` allows it, a duration of zero."""
    units = ", ".join(_UNITS_S)
    match = re.fullmatch(r"\s*([-+]?[0-9.]+(?:[eE][-+]?\d+)?)\s*([a-zA-Zµ]*)\s*", text)
    try:
        number = float(match[1]) if match else None
    except ValueError:
        number = None
    if match is None or number is None:
        raise UsageError(
            f"{name}: {text!r} is not a duration", remedy=f"write a number and a unit ({units})"
        )
    if not match[2]:
        raise UsageError(
            f"{name}: {text!r} has no unit", remedy=f"write {text.strip()}s, {text.strip()}min, ..."
        )
    unit = "min" if match[2] == "m" else match[2]
    if unit not in _UNITS_S:
        raise UsageError(f"{name}: {unit!r} is not a unit of time", remedy=f"use one of {units}")
    if number < 0 or (number == 0 and not zero):
        below = "is negative" if zero else "is not above zero"
        raise UsageError(
            f"{name}: {text!r} {below}",
            remedy=f"give {'0s or ' if zero else ''}a positive duration",
        )
    seconds = number * _UNITS_S[unit]
    if not seconds <= _LONGEST_S or 0 < seconds < _SHORTEST_S:
        raise UsageError(
            f"{name}: {text!r} is too {'short' if seconds < _SHORTEST_S else 'long'}",
            remedy="give a duration from 1 ns to 30 million years",
        )
    return seconds


_UNITS_BYTES = {
    "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
}  # fmt: skip
_MOST_BYTES = 1e24


def parse_bytes(text: str, *, name: str) -> float:
    """Return ``"2GB"``, ``"512mib"`` or ``"50G"`` in bytes; ``name`` is the user's word for it.

    Units are read in upper and lower case, with or without their ``B``. Raises `UsageError` for a
    bare number, an unknown unit, and anything that is not above zero."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", text)
    known = {unit.lower(): size for unit, size in _UNITS_BYTES.items()}
    unit = match[2].lower().removesuffix("b") + "b" if match else ""
    if match is None or unit not in known or not 0 < float(match[1]) * known[unit] <= _MOST_BYTES:
        raise UsageError(
            f"{name}: {text!r} is not an amount of data",
            remedy=f"write a number above zero, below 1e12 TB, and a unit "
            f"({', '.join(_UNITS_BYTES)})",
        )
    return float(match[1]) * known[unit]


def parse_share(text: str, *, name: str) -> float:
    """Return ``"0.5"`` or ``"50%"`` as a share, 0 to 1. Raises `UsageError` for anything else."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not 0 <= share <= 1:
        percent = match and not match[2] and 1 < share <= 100
        raise UsageError(
            f"{name}: {text!r} is not a share from 0 to 1",
            remedy=f"write {share:g}% or {share / 100:g}" if percent else "write 50% or 0.5",
        )
    return share


def format_duration(seconds: float) -> str:
    """Return three significant digits in a fitting unit: ``"1.6 s"``, ``"20 min"``.

    Powers of ten are never used: above a thousand days there are more digits, and below a
    nanosecond the text is ``"under 0.001 µs"``."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    for unit, larger in (("µs", "ms"), ("ms", "s"), ("s", "min"), ("min", "h"), ("h", "d")):
        if seconds >= _UNITS_S[larger]:
            continue
        shown = _three_digits(seconds / _UNITS_S[unit])
        if float(shown) >= round(_UNITS_S[larger] / _UNITS_S[unit]):
            return f"1 {larger}"
        return f"{shown} {unit}" if float(shown) > 0 else "under 0.001 µs"
    return f"{_three_digits(seconds / _UNITS_S['d'])} d"


def format_bytes(size: float) -> str:
    """Return an amount of data in three digits: "512 MB", "1.25 GB"."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def _three_digits(number: float) -> str:
    """Return three significant digits of ``number`` >= 0, at most three of them decimals."""
    if number < 0.1:
        return f"{number:.3f}"
    return f"{number:.0f}" if number >= 999.5 else f"{number:.3g}"


def read_given(path: Path, option: str, remedy: str) -> str:
    """Return the text of a file that a user named with ``option``.

    Raises `UsageError` for a file that is missing, not readable or not text in UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError:
        why = "it is no text in UTF-8"
    raise UsageError(f"{option}{path} cannot be read: {why}", remedy=remedy)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a remedy for a misspelt name: the nearest known one, or the list of all."""
    names = list(known)
    near = nearest(given, names)
    return f"did you mean {near!r}?" if near else f"use one of: {', '.join(names)}"


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to a misspelt one, if any is near."""
    return next(iter(get_close_matches(given, list(known), n=1)), None)
