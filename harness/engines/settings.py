"""Settings that were asked for, and the same as the running system reports them.

What a file asks for is not always what runs: a system ignores a name that it does not know, and one
setting can be without effect without another. So an engine names what its rows rest on, and reads
it back from what runs; a pass begins only if both are equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import pandas as pd

from harness.errors import EnvironmentFailure

FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Compile quickly rather than well: for runs that end before the better code would pay."""
JAVA = "options of Java"
"""The name of this setting: what `speed_of` finds."""
_SPEED = re.compile(r"-Xm[xns]\w+|-Xint|-XX:(TieredStopAtLevel=\d|[-+](Tiered\w+|Use\w*GC))")
DRIVER_MB = 768
"""Heap of what an engine has on no node: Spark's driver, Flink's JobManager."""


def java_options(heap_mb: int, *, brief: bool) -> list[str]:
    """Return the options of the Java under every engine, which are those of Spark's executors.

    All else is Java's own choice. ``brief``: for the smoke profile, which measures no times."""
    return [f"-Xmx{heap_mb}m", "-XX:-UsePerfData", *([FIRST_COMPILER] if brief else [])]


def speed_of(options: Iterable[str]) -> str:
    """Return the options that decide how fast a Java is: memory, compiler, garbage collector."""
    return " ".join(sorted(filter(_SPEED.fullmatch, options)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of one part of a system."""

    part: str
    """The part that reports it, such as a node or "broker"."""
    name: str
    asked: str | None
    """None if it was left at its default."""
    reported: str | None
    """None if the part reports nothing of this name."""


def read_back(
    part: str, asked: Mapping[str, str | None], reported: Mapping[str, object]
) -> Iterator[Setting]:
    """Yield the settings that were ``asked`` for, as ``part`` reports them."""
    for name, value in asked.items():
        said = reported.get(name)
        text = str(said).lower() if isinstance(said, bool) else str(said)
        yield Setting(part=part, name=name, asked=value, reported=None if said is None else text)


def demand_reported(engine: str, settings: Sequence[Setting]) -> None:
    """Raise `EnvironmentFailure` with both values of each setting that does not run as asked."""
    wrong = [one for one in settings if one.asked is not None and one.asked != one.reported]
    if wrong:
        raise EnvironmentFailure(
            f"engine {engine} does not run with the settings of its row: "
            + "; ".join(
                f"{one.name} of {one.part} is {one.reported or 'not reported'}, and {one.asked} "
                "was asked for"
                for one in wrong
            ),
            remedy="look in its logs for the setting's name: another setting or version may "
            "overrule it",
        )


def table(settings: Sequence[Setting]) -> pd.DataFrame:
    """Return a row for each setting; parts that ask and report the same share one."""
    columns = [field.name for field in fields(Setting)]
    frame = pd.DataFrame([asdict(one) for one in settings], columns=columns)
    alike = frame.groupby(["name", "asked", "reported"], dropna=False, sort=False)["part"]
    return alike.agg(lambda parts: " ".join(dict.fromkeys(parts))).reset_index()[columns]
