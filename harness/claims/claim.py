"""A claim, the rule that decides it, and the verdict on what was measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.claims.samples import FEWEST, Sample


class ClaimKind(StrEnum):
    """The meaning of a claim that does not hold."""

    INVARIANT = "invariant"
    """It must always hold; otherwise something is broken here. The identities of a formula are
    among them: they show that the formula was written down right, not that it is true."""
    PAPER = "paper"
    """A sentence of a paper. It may honestly fail to hold here."""
    HYPOTHESIS = "hypothesis"
    """A sentence of our own. It may fail to hold as well."""


class Word(StrEnum):
    """The four words for a verdict."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    UNDECIDED = "undecided"
    """It was measured, and the interval of the samples has the limit inside, or too few were."""
    NOT_MEASURED = "not measured"


class Basis(StrEnum):
    """The ground of a verdict, the strongest first; verdicts are counted apart by it."""

    LIVE = "live"
    """Real servers that were really broken."""
    SIMULATED = "simulated"
    """Virtual time, or failures that were drawn."""
    COMPUTED = "computed"
    """A formula or an algorithm."""
    FOREGONE = "circular or by construction"
    """Its figure could hardly show anything else (`Foregone`)."""


class Foregone(StrEnum):
    """The reasons why a verdict was settled before anything was measured."""

    CIRCULAR = "circular"
    """A value in its figure was chosen so that the sentence holds."""
    PARTLY = "semi-circular"
    """A value in its figure was taken from the numbers with which it is compared."""
    CONSTRUCTION = "by construction"
    """It follows from the model, the costs or the demands that were written down."""


class Cause(StrEnum):
    """The four words for what a paper's sentence that does not hold here fails by."""

    READING = "our reading"
    """What is built or compared here differs from the paper's, or is not modelled."""
    LOST = "lost parameter"
    """A value that is in no copy of the paper, and is chosen here."""
    NOT_SO = "not so"
    """It was built as the paper describes it, and the sentence is not true of it."""
    MACHINE = "machine"
    """The speed or the size of the machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The version of what is compared, with its limit and tolerance, and when it was fixed."""

    version: int = 1
    since: str = "2026-11-23"
    """ISO date of this version. Version 1 of that day is the one of the first claims with ids."""
    seen_seeds: Sequence[int] = ()
    """Root seeds whose data had been seen when the rule was changed. A verdict on them is post hoc:
    it needs runs with another seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a rule on an experiment's tables."""

    held: bool | None
    """None if the data does not decide it."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind it, the tolerance among them."""
    why: str | None = None
    """The reason for a verdict other than "holds", if the numbers show one."""
    per_cell: bool = False
    """True if one cell of the grid refutes it: a refutation by a part of the grid is final."""
    sample: Sample | None = None
    """The number that was compared with a limit, if it is a statistic of samples."""
    samples: int | None = None
    """Number of independent samples behind it, where it has no ``sample``. None: the repetitions of
    the experiment's points, if these were measured live."""
    asked: bool = True
    """False if the claim makes no sense of this grid; it then has no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence about a figure, with the rule that decides it."""

    id: str
    """Unique within its experiment; never changed, and never used for another sentence."""
    kind: ClaimKind
    text: str
    """The sentence; a paper's in its own words as far as a check allows."""
    decide: Callable[[Any], Finding]
    """Takes what the experiment's ``table`` returned."""
    because: str | None = None
    """The reason why it does not hold, found by examining results; shown only then, and only if
    the finding has none of its own."""
    cause: Cause | None = None
    """The same reason in a word."""
    unmeasured_because: str | None = None
    """The same where a complete campaign does not decide it."""
    rule: Rule = field(default_factory=Rule)
    counted: bool = False
    """True if one live run refutes it, such as one lost result does. It holds after as many runs
    without one as there must be samples."""
    foregone: Foregone | None = None
    """Set where the figure could hardly show anything else."""
    foregone_because: str | None = None
    """The choice or the model that settles it."""
    place: tuple[str, int] = ("", 0)
    """The file and the line in which it is written."""

    @property
    def needs(self) -> str:
        """The condition in words: a comparison's, or a function's docstring; empty without one."""
        return _described(self.decide)

    def on(self, table: str, **changes: Any) -> Claim:
        """Return this claim about a live table, without its reasons; with ``changes``.

        What a model was built to show is open there; what was chosen is chosen there, too."""
        plain: dict[str, Any] = {"because": None, "cause": None, "unmeasured_because": None}
        if self.foregone is Foregone.CONSTRUCTION:
            plain |= {"foregone": None, "foregone_because": None}
        decide = _OnTable(rule=self.decide, table=table)
        return replace(self, decide=decide, **{**plain, **changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnTable:
    """A rule that is judged on one of an experiment's tables."""

    rule: Callable[[Any], Finding]
    table: str

    def __call__(self, tables: Mapping[str, Any]) -> Finding:
        return self.rule(tables[self.table])

    @property
    def described(self) -> str:
        return _described(self.rule)


def _described(rule: Callable[[Any], Finding]) -> str:
    if not inspect.isfunction(rule):
        return str(getattr(rule, "described", ""))
    return (inspect.getdoc(rule) or "").partition("\n\n")[0].replace("\n", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of judging a claim."""

    id: str = ""
    text: str
    kind: ClaimKind
    held: bool | None
    """None if it was not measured, or is undecided."""
    measured: Mapping[str, Any]
    why: str | None = None
    """The reason for a verdict other than "holds"; never shown otherwise."""
    cause: Cause | None = None
    """That reason in a word, where it does not hold."""
    rule: Rule = field(default_factory=Rule)
    sample: Sample | None = None
    samples: int | None = None
    """Number of independent samples behind it; None if it does not rest on samples."""
    counted: bool = False
    basis: Basis | None = None
    """None until the figure is known that it is about."""
    foregone: Foregone | None = None
    foregone_because: str | None = None
    sentence: str = ""
    """The key of its sentence, ``experiment/id``; verdicts with one key count once."""
    post_hoc: bool = False
    """True if the rule was changed after the data of these seeds had been seen."""
    problem: str | None = None
    """The error of a rule that failed on a complete campaign: a defect here."""

    @property
    def word(self) -> Word:
        """The verdict in a word."""
        if self.held is None:
            return Word.NOT_MEASURED if self.samples is None else Word.UNDECIDED
        return Word.HOLDS if self.held else Word.DOES_NOT_HOLD


def about_times(one: Claim | Verdict) -> bool:
    """Return False for what is counted, and for what must hold in every run."""
    return one.kind is not ClaimKind.INVARIANT and not one.counted


def judge(claim: Claim, tables: Any, *, missing: str | None = None) -> Verdict | None:
    """Judge one claim; None if it makes no sense of this grid.

    ``missing`` describes the runs that are not there, None if the grid is complete. Without them a
    claim cannot hold, only a cell can refute it, and an error of its rule means missing rows."""
    try:
        finding = claim.decide(tables)
    except Exception as error:
        if missing is None:
            why = f"its rule failed ({type(error).__name__}: {error})"
            return verdict_of(claim, Finding(held=None, why=why), problem=why)
        finding = Finding(held=None)
    if not finding.asked:
        return None
    if missing is not None and not (finding.held is False and finding.per_cell):
        finding = Finding(held=None, measured=finding.measured, why=missing)
    return verdict_of(claim, finding)


def verdict_of(claim: Claim, finding: Finding, problem: str | None = None) -> Verdict:
    """Return the verdict of a finding; ``problem`` is the error of a rule that failed."""
    held = None if finding.held is None else bool(finding.held)
    why, sample = finding.why, finding.sample
    if why is None and held is None and sample is not None:
        inside = f"the 95 % interval of {sample.n} samples has the limit inside"
        why = too_few(sample.n, FEWEST) if sample.low is None else inside
    if why is None and claim.kind is not ClaimKind.INVARIANT:
        why = claim.because if held is False else claim.unmeasured_because
    return Verdict(
        id=claim.id,
        text=claim.text,
        kind=claim.kind,
        held=held,
        measured=finding.measured,
        why=None if held else why,
        cause=claim.cause if held is False else None,
        rule=claim.rule,
        sample=sample,
        samples=finding.samples if sample is None else sample.n,
        counted=claim.counted,
        foregone=claim.foregone,
        foregone_because=claim.foregone_because,
        problem=problem,
    )


def too_few(samples: int, fewest: int) -> str:
    """Return the sentence about samples that do not decide a claim, with what to do."""
    return f"it takes {fewest} samples, and there are {samples}: add some with --repeats"
