"""The words of ``faultline advise`` for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.intervals.recovery import Recovery, Span
from harness.text import format_duration

if TYPE_CHECKING:
    from harness.advice.advise import Advice
    from harness.advice.options import Option

WIDTH = 80
_PARTS = "{:<11} {:>8} {:>20}  "
_SCHEMES = "{:<22} {:>8} {:>7} {:>8} {:>9} {:>9} {:>9}"


def words(found: Advice) -> list[str]:
    """Return the lines of an advice."""
    lines = [
        *_filled(found.job.describe()),
        *_filled(f"{found.system.title}; a {found.job.failure.value} fails"),
        *_filled(
            f"it can do {found.known.capacity_per_s:,.6g} tuples/s ({found.known.capacity_why})"
        ),
        "",
    ]
    if found.now is not None:
        every = format_duration(found.job.interval_s or 0.0)
        lines += _recovery(f"a failure today, with a {found.system.interval} of {every}", found.now)
        lines += ["", *_changed(found.now, found.best)]
    else:
        every = format_duration(found.best.interval_s or 0.0)
        title = f"a failure, with a {found.system.interval} of T* = {every}"
        lines += _recovery(title, found.best)
    lines += ["", *_fitted(found), *_schemes(found), ""]
    if found.target_s is not None:
        lines += [*_filled(_choice(found)), ""]
    lines += _notes(found)
    lines += ["", "if T* were chosen for another mean time to failure:"]
    lines += [
        f"  {each.factor:g} times as long: every {format_duration(each.interval_s)}, "
        f"{each.lost:.2%} of the time lost"
        for each in found.interval_if_wrong
    ]
    lines += ["", "placement:", *_each(found.placement)]
    lines += ["", "how far to trust it (docs/advice.md has every row):", *_each(found.accuracy)]
    if found.assumed:
        lines += ["", *_filled(f"assumed, because not given: {', '.join(found.assumed)}")]
    return [*lines, "", "sources:", *_each(found.sources)]


def _filled(text: str, indent: str = "") -> list[str]:
    """Return a text as lines; addresses are longer than a line and stay whole."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _each(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield from _filled(f"  {text}", "    ")


def _recovery(title: str, option: Option) -> Iterator[str]:
    assert option.parts is not None
    yield from _filled(f"{title}:")
    yield _PARTS.format("part", "average", "best to worst") + "from"
    parts: Recovery = option.parts
    for part in parts.parts:
        yield from _row(part.name, part.span, f"{part.origin}: {part.why}")
    yield from _row("recovery", parts.total, "until output is on time again")


def _row(name: str, span: Span, why: str) -> Iterator[str]:
    ends = ""
    if span.best_s != span.worst_s:
        ends = f"{format_duration(span.best_s)} to {format_duration(span.worst_s)}"
    start = _PARTS.format(name, format_duration(span.mean_s), ends)
    first, *more = textwrap.wrap(why, WIDTH - len(start), break_on_hyphens=False)
    yield start + first
    yield from (" " * len(start) + line for line in more)


def _changed(now: Option, best: Option) -> Iterator[str]:
    """Say what T* would change for a job that has another interval."""
    assert now.recovery is not None
    assert best.recovery is not None
    assert best.interval_s is not None
    mean_s = best.recovery.expected_s - now.recovery.expected_s
    worst_s = best.recovery.high_s - now.recovery.high_s
    less = "shorter" if mean_s < 0 else "longer"
    text = (
        f"T* is {format_duration(best.interval_s)}: a recovery would be "
        f"{format_duration(abs(mean_s))} {less} on average, {format_duration(abs(worst_s))} at "
        "worst"
    )
    if now.utilization is None or best.utilization is None:
        yield from _filled(text)
        yield from _filled(now.notes[-1])
        return
    gained = best.utilization - now.utilization
    yield from _filled(
        f"{text}, and {best.utilization:.2%} of the time would be left for work instead of "
        f"{now.utilization:.2%}: {format_duration(gained * 365 * 86_400)} more in a year"
    )


def _fitted(found: Advice) -> Iterator[str]:
    fitted = found.known.fitted
    if fitted is None:
        return
    n = fitted.observations
    count = "recovery" if n == 1 else "recoveries"
    text = f"from {n} {count} of yours: out for {fitted.outages.describe()}"
    if fitted.capacity_per_s is not None:
        text += f", a capacity of {fitted.capacity_per_s:,.6g} tuples/s"
    if fitted.median_error is not None:
        text += f"; each predicted from the others, off by {fitted.median_error:.0%} at the median"
    if n == 1:
        text += "; one says nothing of how much they differ, so best and worst are not known"
    else:
        text += (
            f"; the next one is outside of what these {n} show with a probability of "
            f"{2 / (n + 1):.0%}"
        )
    yield from _filled(text)
    for note in found.known.notes:
        yield from _filled(note)
    yield ""


def _schemes(found: Advice) -> Iterator[str]:
    yield _SCHEMES.format(
        "scheme", "interval", "work", "replicas", "recovery", "at worst", "all nodes"
    )
    shown = sorted(found.options, key=lambda option: (not option.offered, option.recovery is None))
    for option in shown:
        one, every = option.recovery, option.recovery_all
        yield _SCHEMES.format(
            option.label + ("" if option.offered else " *"),
            format_duration(option.interval_s) if option.interval_s else "–",
            "–" if option.utilization is None else f"{option.utilization:.2%}",
            f"{option.extra_tasks:.0%}",
            format_duration(one.expected_s) if one else "–",
            format_duration(one.high_s) if one else "–",
            format_duration(every.expected_s) if every else "–",
        )
    if not all(option.offered for option in shown):
        yield f"* {found.system.title} has none: as it would be"


def _choice(found: Advice) -> str:
    assert found.target_s is not None
    text = "most useful work per task with a node's recovery within "
    text += f"{format_duration(found.target_s)}, at worst: "
    if found.chosen is None:
        return text + f"none that {found.system.title} has recovers so fast"
    every = found.chosen.interval_s
    return text + f"{found.chosen.scheme}" + (f", every {format_duration(every)}" if every else "")


def _notes(found: Advice) -> Iterator[str]:
    for note in found.system.notes:
        yield from _filled(f"{found.system.key}: {note}", "  ")
    for option in found.options:
        notes = list(option.notes)
        if option.first_output_s is not None:
            notes.insert(
                0,
                f"output again after {format_duration(option.first_output_s)}, "
                f"{option.output_fidelity:.0%} of it right until recovery is complete",
            )
        if option.recovery is None:
            notes.append(f"its recovery is not known: {option.unknown}")
        yield from _filled(f"{option.label}: {'; '.join(notes)}", "  ")
