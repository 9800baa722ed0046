"""Answers to a reader's first questions, made from tables and verdicts; no number is typed.

A `Question` says which numbers it takes and in which sentences they stand
(`harness.pages.questions` has the list). It has no answer while one of the numbers of its first
sentence is missing, or a claim behind it does not hold.

Tests: ``tests/pages/test_answers.py``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any

from harness.claims import Basis, Word
from harness.claims.cells import Cells
from harness.claims.samples import FEWEST, Sample
from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.cards import address, command
from harness.pages.outages import outage_rows
from harness.results.record import TOO_FEW_CORES, Profile
from harness.running.discovery import estimate_s
from harness.text import format_duration

Items = Mapping[str, Assessment]
"""What was judged, by the experiment's id."""
UNITS: Mapping[str, Callable[[float], str]] = {
    "s": "{:.3g} s".format,
    "share": lambda value: f"{100 * value:.0f} %",
    "percent": "{:.2g} %".format,
    "times": "{:.3g}".format,
    "": "{:,.0f}".format,
}
"""The form of a number of each unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A measured number with its interval, in words and for a picture."""

    label: str
    figure: str
    value: float
    low: float | None = None
    high: float | None = None
    longer: bool = False
    """True if it is longer than the value, which was the end of watching."""
    never: int = 0
    """Number of outages behind it that were not over while they were watched."""
    n: int
    """Number of independent samples behind it."""
    text: str

    @property
    def few(self) -> bool:
        """True if it was measured too seldom for an interval; what is counted needs none."""
        return bool(self.figure) and self.low is None and self.n < FEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """The outages of a figure's kills as users see them, by engine and scheme."""

    figure: str
    where: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """The label of each scheme that is taken; by default all are, with their engines."""
    systems: Mapping[str, str] = field(default_factory=dict)
    """The label of engine and scheme together, where their own words are not a reader's."""
    best_of: Sequence[str] = ()
    """Schemes of which ``{best}`` in a sentence names the one with the shortest outage."""

    def numbers(self, items: Items) -> dict[str, Number]:
        """Return the numbers by scheme; by engine and scheme where all are taken."""
        rows = outage_rows(items[self.figure], self.where) if self.figure in items else []
        if self.labels:
            rows = [row for row in rows if row["scheme"] in self.labels]
        alike = len({row["scheme"] for row in rows}) == 1
        numbers = {}
        for row in rows:
            both = f"{row['engine']}, {row['scheme']}"
            low, high = row["interval_s"] or (None, None)
            numbers[row["scheme"] if self.labels else both] = Number(
                label=self.labels.get(
                    row["scheme"], row["engine"] if alike else self.systems.get(both, both)
                ),
                figure=self.figure,
                value=row["at_least_s"],
                low=low,
                high=high,
                longer=row["median_s"] is None,
                never=row["never"],
                n=row["passes"],
                text=row["outage"],
            )
        return numbers


@dataclass(frozen=True, slots=True)
class Column:
    """A number of a figure's tables."""

    name: str
    """Its name in sentences and labels."""
    figure: str
    cells: Cells
    unit: str = "s"
    label: str = ""
    """Its label in the picture; without one it is only in the text."""

    def numbers(self, items: Items) -> dict[str, Number]:
        """Return the number by its name; nothing if it was not measured."""
        item = items.get(self.figure)
        sample = None if item is None else self.cells.sample(item.tables())
        if sample is None:
            return {}
        number = Number(
            label=self.label, figure=self.figure, value=sample.value, low=sample.low,
            high=sample.high, n=sample.n, text=in_unit(sample, self.unit),
        )  # fmt: skip
        return {self.name: number}


def in_unit(sample: Sample, unit: str) -> str:
    """Return a number with its interval in words."""
    form = UNITS[unit]
    if sample.low is None or sample.high is None:
        return form(sample.value)
    if sample.low == sample.high:
        return f"{form(sample.value)} each time"
    return f"{form(sample.value)} ({form(sample.low)} to {form(sample.high)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Numbers that are counted from all verdicts, such as that of sentences that fail."""

    count: Callable[[Sequence[Assessment]], Mapping[str, tuple[str, int]]]
    """Returns label and number by name."""

    def numbers(self, items: Items) -> dict[str, Number]:
        """Return the numbers by name; they need no interval."""
        return {
            name: Number(label=label, figure="", value=n, n=n, text=str(n))
            for name, (label, n) in self.count([*items.values()]).items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, the numbers that answer it, and the sentences in which they stand."""

    id: str
    words: str
    parts: Sequence[Outages | Column | Counted]
    sentences: Sequence[str]
    """A name in braces is a number with its interval; ``{all}`` lists those of the
    picture, smallest first. A sentence with a missing number is left out; without the first one
    there is no answer."""
    axis: str
    claims: Sequence[str] = ()
    """Claims behind it, as ``experiment/id``: if one does not hold there is no answer, and one
    that is not decided speaks against it."""
    limits: Sequence[str] = ()
    """What speaks against it whatever was measured."""
    details: Callable[[Sequence[Assessment]], Sequence[Mapping[str, str]]] = lambda judged: ()
    """Further lines: ``text``, and the link ``href`` with its ``title``."""
    run: str = ""
    """The command that checks it, where that is not a new run of its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A figure that an answer rests on."""

    words: str
    """What it rests on, and what that is worth: ``live, 1 pass: the order of magnitude, no more``.
    """
    command: str
    takes: str
    """Duration of the command on two cores."""
    expect: str
    """What the command should show, compared with the answer."""
    title: str
    href: str
    records: str
    """The experiment whose records it shows: its kills have this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finding: the answer to a question, what it rests on, and what speaks against it."""

    question: Question
    sentences: Sequence[str]
    bars: Sequence[Number]
    grounds: Sequence[Ground]
    against: Sequence[str]
    details: Sequence[Mapping[str, str]]


def answers(judged: Sequence[Assessment], questions: Sequence[Question]) -> list[Answer]:
    """Return the answers that the measured figures give, in the order of the questions."""
    items: dict[str, Assessment] = {}
    for item in judged:
        items.setdefault(item.experiment.id, item)
    found = (_answer(question, items) for question in questions)
    return [each for each in found if each is not None]


def _answer(question: Question, items: Items) -> Answer | None:
    by_name = {f"{name}/{claim.id}": claim for name, item in items.items() for claim in item.claims}
    claims = [by_name[name] for name in question.claims if name in by_name]
    if any(claim.word is Word.DOES_NOT_HOLD for claim in claims):
        return None
    numbers: dict[str, Number] = {}
    for part in question.parts:
        numbers |= part.numbers(items)
    slots = {name: number.text for name, number in numbers.items()}
    for part in question.parts:
        if isinstance(part, Outages) and {*part.best_of} & {*numbers}:
            there = [name for name in part.best_of if name in numbers]
            slots["best"] = min(there, key=lambda name: (numbers[name].longer, numbers[name].value))
    bars = [
        replace(each, label=text)
        for each in numbers.values()
        if each.label and (text := _filled(each.label, slots)) is not None
    ]
    slots["all"] = _listed(bars)
    sentences = [_filled(each, slots) for each in question.sentences]
    if sentences[0] is None or not bars:
        return None
    undecided = [f"{claim.word}: “{claim.text}”" for claim in claims if claim.held is None]
    limits = [text for each in question.limits if (text := _filled(each, slots)) is not None]
    endless = [
        f"{bar.label}: {bar.never} of its outages {'was' if bar.never == 1 else 'were'} not over "
        "while watched"
        for bar in bars
        if bar.never
    ]
    used = [items[n] for n in dict.fromkeys(n.figure for n in numbers.values()) if n]
    return Answer(
        question=question,
        sentences=[each for each in sentences if each is not None],
        bars=bars,
        grounds=[_ground(item, numbers.values()) for item in used],
        against=[*_doubts(used), *endless, *undecided, *limits],
        details=question.details([*items.values()]),
    )


def _filled(sentence: str, slots: Mapping[str, str]) -> str | None:
    """Return a sentence with its numbers; None where one is missing."""
    names = {name for _, name, _, _ in Formatter().parse(sentence) if name}
    return sentence.format_map(slots) if names <= {*slots} else None


def _listed(bars: Sequence[Number]) -> str:
    """Return the numbers with their labels, smallest first; equal ones stand together."""
    labels: dict[str, list[str]] = {}
    for bar in sorted(bars, key=lambda bar: bar.value):
        labels.setdefault(bar.text, []).append(bar.label)
    texts = [f"{text} under {' and '.join(names)}" for text, names in labels.items()]
    return "; ".join([*texts[:-1], f"and {texts[-1]}"] if len(texts) > 1 else texts)


def _ground(item: Assessment, numbers: Collection[Number]) -> Ground:
    experiment = item.experiment
    counts = sorted({n.n for n in numbers if n.figure == experiment.id})
    words, expect = experiment.origin.value, "the same numbers"
    if experiment.origin is Origin.MEASURED:
        least = f"{counts[0]} to " if counts[0] < counts[-1] else ""
        passes = f"{Basis.LIVE}, {least}{counts[-1]} {'pass' if counts[-1] == 1 else 'passes'}"
        worth, expect = _worth(counts[0])
        words = f"{passes}: {worth}"
    again_s = estimate_s(experiment, item.profile, item.campaign.newest.repeats)
    return Ground(
        words=words,
        command=command(item),
        takes=f"about {format_duration(again_s)}" if again_s >= 10.0 else "some seconds",
        expect=expect,
        title=experiment.title,
        href=address(experiment),
        records=experiment.measurement.id,
    )


def _worth(passes: int) -> tuple[str, str]:
    """Return the worth of a median of ``passes`` passes, and what to expect of another one."""
    if passes >= FEWEST:
        return "95 % intervals", "medians within these intervals, or intervals that meet them"
    few = "the order of magnitude, no more" if passes == 1 else "rough, without an interval"
    return few, "other numbers of the same order of magnitude"


def _doubts(used: Sequence[Assessment]) -> list[str]:
    """Return what the records themselves say against their numbers."""
    found = []
    if any(item.profile is Profile.SMOKE for item in used):
        found.append("the smoke profile, whose runs are too short to decide it")
    records = [record for item in used for record in item.campaign.valid]
    if doubts := sum(bool(record.again) for record in records):
        found.append(f"{doubts} of {len(records)} runs are in doubt: others used the machine")
    if short := sum(bool(record.values.get(TOO_FEW_CORES)) for record in records):
        found.append(f"{short} of {len(records)} runs had too few idle cores for their times")
    return found


def lines(found: Sequence[Answer]) -> list[str]:
    """Return the answers as lines of text for a terminal."""
    shown = []
    for number, each in enumerate(found, 1):
        known = [f"{ground.words} ({ground.title})" for ground in each.grounds]
        shown += [
            f"{number}. {each.question.words}",
            *(f"   {sentence}" for sentence in each.sentences),
            f"   rests on: {'; '.join(known) or 'the verdicts of all figures'}",
        ]
        if each.against:
            more = len(each.against) - 1
            rest = f" (and {more} more in the report)" if more else ""
            shown.append(f"   against it: {each.against[0]}{rest}")
        again = [f"{ground.command} ({ground.takes})" for ground in each.grounds]
        shown += [f"   check it: {one}" for one in again or [each.question.run]]
    return shown


def in_readme(readme: str, found: Sequence[Answer], site: str) -> str:
    """Return a README with these answers in place of those between its two marks.

    ``site`` is the path of the pages from the README."""
    before, rest = readme.split(_BEGIN)
    _, after = rest.split(_END)
    lines = [
        f"{number}. **{each.question.words}** {each.sentences[0]} "
        f"*{'; '.join(dict.fromkeys(ground.words for ground in each.grounds)) or 'all verdicts'}* "
        f"([more, and how to check it]({site}/index.html#finding-{each.question.id}), "
        f"[picture]({site}/figures/finding-{each.question.id}.svg))"
        for number, each in enumerate(found, 1)
    ]
    text = "\n".join(lines)
    return f"{before}{_BEGIN}\n{text}\n{_END}{after}"


_BEGIN = "<!-- findings: made by ./faultline site --shipped -->"
_END = "<!-- end of the findings -->"
