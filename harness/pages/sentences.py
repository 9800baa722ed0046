"""One verdict for a sentence, whatever number of profiles, machines, figures and readings judge it.

Verdicts with the same key are about one sentence. Of those that rest on the same ground (`Basis`)
the one stands that was measured, is about the sentence as written and not about a reading of it,
and has the largest profile; of equals the least favourable one. The sentence has the verdict of the
strongest ground that decides it. A broken invariant always counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from harness.claims import Basis, ClaimKind, Verdict, Word
from harness.pages.assessment import Assessment
from harness.results.record import Profile, plain

_BASES = [*Basis]
_PROFILES = [Profile.PAPER, Profile.QUICK, Profile.SMOKE]
_WORDS = [Word.DOES_NOT_HOLD, Word.UNDECIDED, Word.HOLDS, Word.NOT_MEASURED]
"""The least favourable first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict with the figure and profile that it is about."""

    item: Assessment
    verdict: Verdict
    place: int
    """Its number among the verdicts of the figure."""

    @property
    def basis(self) -> int:
        """The place of what it rests on, the strongest ground first."""
        return _BASES.index(self.verdict.basis or Basis.FOREGONE)

    @property
    def rank(self) -> tuple[Any, ...]:
        """The place among the verdicts of one sentence on one ground; the first one stands."""
        experiment, verdict = self.item.experiment, self.verdict
        return (
            not _broken(verdict),
            verdict.word is Word.NOT_MEASURED,
            verdict.id in experiment.sentences,
            _PROFILES.index(self.item.profile),
            self.place,
            _WORDS.index(verdict.word),
        )


def _broken(verdict: Verdict) -> bool:
    return verdict.kind is ClaimKind.INVARIANT and verdict.held is False


def counted(judged: Iterable[Assessment]) -> Sequence[Verdict]:
    """Return the one verdict of each sentence, in the order in which the sentences come."""
    return [each.verdict for each in standing(judged)]


def standing(judged: Iterable[Assessment]) -> Sequence[Judged]:
    """Return the same with the figure of each."""
    return [_standing(found) for found in _by_sentence(judged)]


def _by_sentence(judged: Iterable[Assessment]) -> Sequence[Sequence[Judged]]:
    """Return the verdicts of each sentence, those that rest on the strongest ground first."""
    found: dict[str, list[Judged]] = {}
    for item in judged:
        for place, verdict in enumerate(item.claims):
            each = Judged(item=item, verdict=verdict, place=place)
            found.setdefault(verdict.sentence, []).append(each)
    return [sorted(each, key=lambda one: (one.basis, one.rank)) for each in found.values()]


def _standing(ordered: Sequence[Judged]) -> Judged:
    """Return the verdict that counts of those about one sentence."""
    first = [next(each) for _, each in groupby(ordered, key=lambda each: each.basis)]
    decided = [each for each in first if each.verdict.held is not None]
    measured = [each for each in first if each.verdict.word is not Word.NOT_MEASURED]
    broken = [each for each in ordered if _broken(each.verdict)]
    return [*broken, *decided, *measured, *first][0]


_KINDS: Mapping[ClaimKind, str] = {
    ClaimKind.INVARIANT: "invariants, which must hold",
    ClaimKind.PAPER: "sentences of papers",
    ClaimKind.HYPOTHESIS: "hypotheses of our own",
}
_COLUMNS: Mapping[Word, str] = {
    Word.HOLDS: "held",
    Word.DOES_NOT_HOLD: "failed",
    Word.UNDECIDED: "undecided",
    Word.NOT_MEASURED: "unmeasured",
}


def counts(judged: Sequence[Assessment]) -> dict[str, Any]:
    """Return the score, the number of verdicts, and that of the sentences that they are about."""
    rows = score(judged)
    return {
        "score": rows,
        "verdicts": sum(len(item.claims) for item in judged),
        "sentences": sum(row[name] for row in rows for name in _COLUMNS.values()),
        "live": live_line(judged),
    }


def live_line(judged: Iterable[Assessment]) -> str:
    """Return "of 118 sentences of papers 68 were measured live, and 3 are decided by that"."""
    items = list(judged)
    sentences = sum(each.kind is ClaimKind.PAPER for each in counted(items))
    measured = measured_live(items)
    decided = sum(each.verdict.held is not None for each in measured)
    return (
        f"of {sentences} sentences of papers {len(measured)} were measured live, and "
        f"{decided} of these are decided by that"
    )


def measured_live(judged: Iterable[Assessment]) -> list[Judged]:
    """Return the verdicts on sentences of papers that were measured live."""
    first = [each[0] for each in _by_sentence(judged)]
    return [
        each
        for each in first
        if each.verdict.kind is ClaimKind.PAPER
        and each.verdict.basis is Basis.LIVE
        and each.verdict.word is not Word.NOT_MEASURED
    ]


def score(judged: Iterable[Assessment]) -> list[dict[str, Any]]:
    """Return the number of sentences by kind, by what they rest on, and by verdict.

    Invariants are one row, as they are about this code and not about systems."""
    assert set(_KINDS) == set(ClaimKind)
    verdicts = counted(judged)
    found = Counter((each.kind, _ground(each), each.word) for each in verdicts)
    rows = []
    for kind, title in _KINDS.items():
        own = {_ground(each): None for each in verdicts if each.kind is kind}
        grounds = [each for each in (*Basis, None) if each in own]
        rows += [
            {
                "title": f"{title}: {basis}" if basis else title,
                **{name: found[kind, basis, word] for word, name in _COLUMNS.items()},
            }
            for basis in grounds or [None]
        ]
    return rows


def _ground(verdict: Verdict) -> Basis | None:
    own = verdict.kind is ClaimKind.INVARIANT and not verdict.foregone
    return None if own else verdict.basis


def score_lines(judged: Iterable[Assessment]) -> list[str]:
    """Return the score as lines of text: ``sentences of papers: live  3 hold, 1 does not``."""
    items = list(judged)
    rows = [row for row in score(items) if any(row[name] for name in _COLUMNS.values())]
    width = max((len(row["title"]) for row in rows), default=0)
    return [
        f"{row['title']:<{width}}  "
        + ", ".join(f"{row[name]} {word.value}" for word, name in _COLUMNS.items() if row[name])
        for row in rows
    ] + ([live_line(items)] if any(one.kind is ClaimKind.PAPER for one in counted(items)) else [])


def claims_json(judged: Iterable[Assessment]) -> str:
    """Return the text of ``claims.json``, a line per verdict.

    ``counts`` marks the one verdict of each sentence that counts."""
    items = list(judged)
    counting = {id(verdict) for verdict in counted(items)}
    documents = [
        {**document, "machine_name": item.campaign.machine_name, "counts": id(verdict) in counting}
        for item in items
        for verdict, document in zip(item.claims, item.documents(), strict=True)
    ]
    lines = ",\n".join(json.dumps(each, default=plain) for each in documents)
    return f"[\n{lines}\n]\n"
