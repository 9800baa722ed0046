"""The words of ``faultline advise`` for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.intervals.recovery import Span
from harness.text import format_duration

if TYPE_CHECKING:
    from harness.advice.advise import Advice
    from harness.advice.options import Option

WIDTH = 80
_PARTS = "{:<11} {:>8} {:>20}  "
_SCHEMES = "{:<22} {:>8} {:>7} {:>8} {:>9} {:>9} {:>9}"


def words(found: Advice) -> list[str]:
    """Return the lines of an advice."""
    job = found.job
    lines = [
        *_filled(job.describe()),
        *_filled(f"{found.system.title}; a {job.failure.value} fails"),
        *_filled(
            f"it can do {found.known.capacity_per_s:,.6g} tuples/s ({found.known.capacity_why})"
        ),
        *_filled(
            f"a checkpoint takes {format_duration(job.checkpoint_s)} from work "
            f"({job.checkpoint_why})"
        ),
        "",
        *_needed(found),
        *_answer(found),
        "",
        *_frontier(found),
        "",
    ]
    today, shown = ("", found.best) if found.now is None else (" today", found.now)
    every = format_duration(shown.interval_s or 0.0)
    lines += _outage(f"a failure{today}, with a {found.system.interval} of {every}", shown)
    if found.now is not None:
        lines += ["", *_changed(found.now, found)]
    lines += ["", *_fitted(found), *_schemes(found), ""]
    if found.target_s is not None:
        lines += [*_filled(_choice(found)), ""]
    lines += _notes(found)
    lines += ["", "placement:", *_each(found.placement)]
    lines += ["", "how far to trust it (docs/advice.md has every row):", *_each(found.accuracy)]
    if found.assumed:
        lines += ["", *_filled(f"assumed, because not given: {', '.join(found.assumed)}")]
    return [*lines, "", "sources:", *_each(found.sources)]


def _needed(found: Advice) -> Iterator[str]:
    """Say which capacity brings the job back in time."""
    if (wanted := found.needed) is None:
        return
    target = format_duration(wanted.target_s)
    every = format_duration(wanted.interval_s)
    down = f"it is down for {wanted.downtime.describe()} whatever it can do"
    if wanted.mean_per_s is None:
        text = f"no capacity brings it back within {target}: {down}"
    else:
        worst = "none" if wanted.worst_per_s is None else f"{wanted.worst_per_s:,.0f}"
        text = (
            f"back within {target} of a failure, with a {found.system.interval} of {every}: "
            f"{wanted.mean_per_s:,.0f} tuples/s on average, {worst} at worst; {down}"
        )
    yield from _filled(text)
    yield from _filled(
        f"caught up within {target} once it works again, as Flink's autoscaler counts: "
        f"{wanted.catch_up_per_s:,.0f} on average"
    )
    yield ""


def _answer(found: Advice) -> Iterator[str]:
    """Say which interval, and why it is not another one."""
    best, job, system = found.best, found.job, found.system
    every = format_duration(best.interval_s or 0.0)
    most_s = format_duration(found.best_interval_s)
    latency = f"{system.arrives} within {format_duration(job.latency_s)} (--latency)"
    if best.stuck:
        yield from _filled(f"with a {system.interval} of {every} it {best.stuck}")
        able = [format_duration(o.interval_s or 0.0) for o in found.frontier if not o.stuck]
        if able:
            yield from _filled(f"it goes on with {', '.join(able)}")
        else:
            yield from _filled(
                f"no {system.interval} helps: raise what it can do (--capacity), or shorten the "
                "detection and the restart"
            )
        return
    text = f"{system.interval}: {every}"
    if not found.for_latency:
        text += " = T*, which leaves most time for work"
    if best.latency is not None and found.for_latency:
        at_best = found.at_best.latency
        assert at_best is not None
        if best.latency.worst_s <= job.latency_s * (1 + 1e-9):
            text += f", the longest with which {latency}: {job.waits}"
        else:
            text += (
                f", twice the shortest that keeps up. With none {latency}: {job.waits}; here it "
                f"takes up to {format_duration(best.latency.worst_s)}"
            )
        text += (
            f". T* = {most_s} leaves most time for work, but it takes up to "
            f"{format_duration(at_best.worst_s)} then"
        )
    elif best.latency is not None:
        text += f"; {latency}"
    yield from _filled(text)


def _frontier(found: Advice) -> Iterator[str]:
    """Yield a table of intervals: what a longer one gains in work, and costs in time."""
    waits = bool(found.job.waits)
    form = "{:>10} " + ("{:>9} {:>9} " if waits else "") + "{:>8} {:>9} {:>9}  {}"
    head = ["latency", "at worst"] if waits else []
    about = "work: share of the time; outage: after the failure of a node"
    if waits:
        about += f"; latency: until {found.system.arrives}"
    yield from _filled(about)
    yield form.format("interval", *head, "work", "outage", "at worst", "").rstrip()
    for option in found.frontier:
        assert option.outage is not None
        late = option.latency
        yield form.format(
            format_duration(option.interval_s or 0.0),
            *([format_duration(late.mean_s), format_duration(late.worst_s)] if late else []),
            _work(option),
            format_duration(option.outage.mean_s),
            format_duration(option.outage.worst_s),
            ", ".join(_marks(found, option)),
        ).rstrip()
    for option in found.frontier:
        if option.stuck and not found.best.stuck:
            yield from _filled(f"{format_duration(option.interval_s or 0.0)}: {option.stuck}", "  ")


def _marks(found: Advice, option: Option) -> Iterator[str]:
    if found.now is not None and option.interval_s == found.now.interval_s:
        yield "yours"
    if option.interval_s == found.best_interval_s:
        yield "T*"
    elif option.interval_s == found.best.interval_s:
        yield "--latency"
    if option.shortened:
        yield "--within"


def _work(option: Option) -> str:
    if option.stuck:
        return "never"
    return "–" if option.utilization is None else f"{option.utilization:.2%}"


def _filled(text: str, indent: str = "") -> list[str]:
    """Return a text as lines; addresses are longer than a line and stay whole."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _each(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield from _filled(f"  {text}", "    ")


def _outage(title: str, option: Option) -> Iterator[str]:
    assert option.parts is not None
    yield from _filled(f"{title}:")
    yield _PARTS.format("part", "average", "best to worst") + "from"
    for part in option.parts.parts:
        yield from _row(part.name, part.span, f"{part.origin}: {part.why}")
    yield from _row("outage", option.parts.total, "until output is on time again")


def _row(name: str, span: Span, why: str) -> Iterator[str]:
    ends = ""
    if span.best_s != span.worst_s:
        ends = f"{format_duration(span.best_s)} to {format_duration(span.worst_s)}"
    start = _PARTS.format(name, format_duration(span.mean_s), ends)
    first, *more = textwrap.wrap(why, max(WIDTH - len(start), 20), break_on_hyphens=False)
    yield start + first
    yield from (" " * len(start) + line for line in more)


def _changed(now: Option, found: Advice) -> Iterator[str]:
    """Say what the advised interval would change for a job that has another one."""
    best = found.best
    assert now.outage is not None
    assert best.outage is not None
    assert best.interval_s is not None
    mean_s = best.outage.mean_s - now.outage.mean_s
    worst_s = best.outage.worst_s - now.outage.worst_s
    less = "shorter" if mean_s < 0 else "longer"
    text = (
        f"with {format_duration(best.interval_s)} an outage would be "
        f"{format_duration(abs(mean_s))} {less} on average, {format_duration(abs(worst_s))} at "
        "worst"
    )
    if now.latency is not None and best.latency is not None:
        text += (
            f", a result would take up to {format_duration(best.latency.worst_s)} instead of "
            f"{format_duration(now.latency.worst_s)}"
        )
    if now.utilization is None or best.utilization is None:
        yield from _filled(text)
        yield from _filled(now.notes[-1])
        return
    gained = best.utilization - now.utilization
    less = "more" if gained >= 0 else "less"
    yield from _filled(
        f"{text}, and {best.utilization:.2%} of the time would be left for work instead of "
        f"{now.utilization:.2%}: {format_duration(abs(gained) * 365 * 86_400)} {less} in a year"
    )


def _fitted(found: Advice) -> Iterator[str]:
    fitted = found.known.fitted
    if fitted is None:
        return
    n = fitted.observations
    count = "outage" if n == 1 else "outages"
    text = f"from {n} {count} of yours: down for {fitted.downtimes.describe()}"
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
        "scheme", "interval", "work", "replicas", "outage", "at worst", "all nodes"
    )
    shown = sorted(found.options, key=lambda option: (not option.offered, option.outage is None))
    for option in shown:
        one, every = option.outage, option.outage_all
        yield _SCHEMES.format(
            option.label + ("" if option.offered else " *"),
            format_duration(option.interval_s) if option.interval_s else "–",
            _work(option),
            f"{option.extra_tasks:.0%}",
            format_duration(one.mean_s) if one else "–",
            format_duration(one.worst_s) if one else "–",
            format_duration(every.mean_s) if every else "–",
        )
    if not all(option.offered for option in shown):
        yield f"* {found.system.title} has none: as it would be"


def _choice(found: Advice) -> str:
    assert found.target_s is not None
    text = "most useful work per task with an outage after a node's failure within "
    text += f"{format_duration(found.target_s)}, at worst: "
    if found.chosen is None:
        return text + f"none that {found.system.title} has is so fast"
    every = found.chosen.interval_s
    return text + f"{found.chosen.scheme}" + (f", every {format_duration(every)}" if every else "")


def _notes(found: Advice) -> Iterator[str]:
    for note in found.system.notes:
        yield from _filled(f"{found.system.key}: {note}", "  ")
    for option in found.options:
        if not option.offered:
            continue
        notes = list(option.notes)
        if option.first_output_s is not None:
            notes.insert(
                0,
                f"output again after {format_duration(option.first_output_s)}, "
                f"{option.output_fidelity:.0%} of it right until recovery is complete",
            )
        if option.outage is None:
            notes.append(f"its outage is not known: {option.unknown}")
        yield from _filled(f"{option.label}: {'; '.join(notes)}", "  ")
