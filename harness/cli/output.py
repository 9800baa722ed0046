"""Results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from harness.errors import UsageError
from harness.text import Notify

json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output."
)


def show(document: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print ``document`` as strict JSON (a NaN becomes null), or else ``lines`` for people."""
    if as_json:
        lines = [json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False)]
    for line in lines:
        click.echo(line)


def plain(value: Any) -> Any:
    """Return ``value`` in JSON's types: objects as mappings, NumPy's unwrapped, NaN as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def check_out(out: Path) -> None:
    """Raise `UsageError` unless results can be written to ``out``; leave nothing there."""
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        why = "is not a directory" if not there.is_dir() else f"takes no files: {error.strerror}"
        raise UsageError(
            f"--out: results cannot be written to {out}, because {there} {why}",
            remedy="name a directory of yours; it is made if it does not exist",
        ) from None


@contextmanager
def interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """End what runs inside as after Ctrl-C when one of these comes."""

    def interrupt(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def elapsed_reporter() -> Notify:
    """Return a function that prints a line on standard error after the seconds since now."""
    began_s = time.monotonic()

    def report(text: str) -> None:
        click.echo(f"{time.monotonic() - began_s:8.1f} s  {text}", err=True)

    return report
