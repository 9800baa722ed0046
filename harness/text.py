"""Small words and numbers for people: durations, sizes, names that were nearly right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

from harness.errors import UsageError

Notify = Callable[[str], None]
"""Is called with one short line when something slow begins or moves on."""

_UNITS_S = {
    "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip


def parse_duration_s(text: str, *, name: str, zero: bool = False) -> float:
    """``"1.6s"``, ``"20min"``, ``"19d"`` in seconds; ``name`` is what the user calls it.

    Raises `UsageError` for a bare number, an unknown unit, a negative duration and, unless
    ``zero`` allows it, for none at all.
    """
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
    if match[2] not in _UNITS_S:
        raise UsageError(
            f"{name}: {match[2]!r} is not a unit of time", remedy=f"use one of {units}"
        )
    if number < 0 or (number == 0 and not zero):
        below = "is negative" if zero else "is not above zero"
        raise UsageError(
            f"{name}: {text!r} {below}",
            remedy=f"give {'0s or ' if zero else ''}a positive duration",
        )
    seconds = number * _UNITS_S[match[2]]
    if not math.isfinite(seconds):
        raise UsageError(f"{name}: {text!r} is endless", remedy="give a finite duration")
    return seconds


_UNITS_BYTES = {
    "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
}  # fmt: skip


def parse_bytes(text: str, *, name: str) -> float:
    """``"2GB"``, ``"512MiB"`` in bytes; ``name`` is what the user calls it.

    Raises `UsageError` for a bare number, an unknown unit, and anything that is not above zero.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2] not in _UNITS_BYTES or not float(match[1]) > 0:
        raise UsageError(
            f"{name}: {text!r} is not an amount of data",
            remedy=f"write a number above zero and a unit ({', '.join(_UNITS_BYTES)})",
        )
    return float(match[1]) * _UNITS_BYTES[match[2]]


def format_duration(seconds: float) -> str:
    """Three significant digits in the unit a reader would choose: ``"1.6 s"``, ``"20 min"``.

    Never in powers of ten: what is longer than a thousand days has more digits, and what is
    shorter than a nanosecond is ``"under 0.001 µs"``.
    """
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


def _three_digits(number: float) -> str:
    """Three significant digits of ``number`` >= 0, at most three of them decimals."""
    if number < 0.1:
        return f"{number:.3f}"
    return f"{number:.0f}" if number >= 999.5 else f"{number:.3g}"


def read_given(path: Path, option: str, remedy: str) -> str:
    """The text of a file that a user named with ``option``. Raises `UsageError` for one that is not
    there, not theirs, or no text in UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError:
        why = "it is no text in UTF-8"
    raise UsageError(f"{option}{path} cannot be read: {why}", remedy=remedy)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A remedy for a misspelt name: the nearest known one, or the list of all."""
    names = list(known)
    near = nearest(given, names)
    return f"did you mean {near!r}?" if near else f"use one of: {', '.join(names)}"


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one was meant for, if one is near."""
    return next(iter(get_close_matches(given, list(known), n=1)), None)


def not_yaml(name: str, error: Exception) -> str:
    """In a line, where and why the text of ``name`` is not YAML; ``error`` is PyYAML's."""
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or "it cannot be read"
    return f"{name}{where} is not YAML: {problem}"
