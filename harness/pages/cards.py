"""The content of one assessment, which pages, notebooks and the archive for reviewers show.

Templates write it as HTML or Markdown. Every text that is made of numbers is made here."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.claims import Sample, Verdict, Word
from harness.cluster.backends import BACKENDS, DEFAULT
from harness.experiment import Experiment
from harness.judging.foreign import ForeignLoad
from harness.measure.metrics import label
from harness.pages import published
from harness.pages.assessment import Assessment
from harness.pages.drawing import Attempt, Undrawable, data_uri
from harness.results.record import FAILED, INVALID, OK, SKIPPED, Record, point_key
from harness.results.store import Campaign
from harness.running.discovery import GROUPS, page_of, place_of
from harness.text import format_duration

Card = Mapping[str, Any]
LARGEST_INLINE_CSV = 150_000
MARKS = {"held": "●", "not held": "✕", "undecided": "◐", "not measured": "○"}
"""The sign of each verdict in a list."""


@dataclass(frozen=True, slots=True)
class Files:
    """The folder that takes pictures and tables."""

    folder: Path
    inline: bool
    """True if a page has them in it, too, so that it is whole as one file."""

    def picture(self, name: str, drawn: Attempt | None) -> str | None:
        """Write a figure, and return its image source; None if there is none."""
        if drawn is None or isinstance(drawn, Undrawable):
            return None
        kind, content = drawn
        path = self._in("figures") / f"{name}.{kind.partition('+')[0]}"
        path.write_bytes(content)
        return data_uri(kind, content) if self.inline else f"figures/{path.name}"

    def tables(self, name: str, judged: Assessment) -> Iterator[dict[str, str]]:
        """Write the tables, and yield a link to each."""
        for title, table in judged.tables().items():
            path = self._in("data") / table_file(name, title)
            # Files of a site are for reading; the records have every digit.
            table.to_csv(path, index=False, float_format=None if self.inline else "%.7g")
            href = f"data/{path.name}"
            if self.inline and path.stat().st_size <= LARGEST_INLINE_CSV:
                href = data_uri("csv", path.read_bytes()).replace("data:image", "data:text", 1)
            yield {"title": title or "data", "file": path.name, "href": href}

    def _in(self, folder: str) -> Path:
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        return self.folder / folder


def table_file(name: str, title: str) -> str:
    """Return the name of the file of a figure's table; a single table has no title."""
    return f"{name}-{title}.csv" if title else f"{name}.csv"


def card(
    judged: Assessment, files: Files | None, drawn: Attempt | None, *, name: str | None = None
) -> dict[str, Any]:
    """Return the content of an assessment; picture and tables go into ``files``.

    ``name`` is the name of its files and its anchor, by default the experiment's."""
    experiment, campaign, newest = judged.experiment, judged.campaign, judged.campaign.newest
    name = name or experiment.anchor
    return {
        "anchor": name,
        "experiment": experiment,
        "profile": judged.profile.value,
        "figure": files and files.picture(name, drawn),
        "alt": f"{experiment.title}. {experiment.statement} {_count(judged.claims)}",
        "claims": [_claim_row(claim) for claim in judged.claims],
        "published": published.rows_of(judged),
        "problem": judged.problem,
        "undrawable": drawn.error if isinstance(drawn, Undrawable) else None,
        "own": _own_parts(newest),
        "valid": len(campaign.valid),
        "expected": campaign.expected,
        "attempts": [*_attempts(campaign)],
        "busy": [line for record in campaign.valid for line in _busy(record)],
        "engines": campaign.engines,
        "backends": campaign.backends,
        "seed": newest.root_seed,
        "commit": newest.commit,
        "cpu": newest.machine.get("cpu", "?"),
        "when": datetime.fromtimestamp(newest.started_unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "took": format_duration(sum(record.seconds for record in campaign.records)),
        "command": command(judged),
        "tables": [*files.tables(name, judged)] if files else [],
    }


def address(experiment: Experiment, anchor: str = "") -> str:
    """Return the link to a figure on its page; its own anchor is its experiment's."""
    return f"{page_of(experiment)}.html#{anchor or experiment.anchor}"


def groups_of(cards: Sequence[Card]) -> list[dict[str, Any]]:
    """Return the groups that have a card, each with its cards and its count of verdicts.

    The main figure of a page comes first; readings, regions and calibrations come last."""
    groups = []
    for name, title in GROUPS.items():
        here = [card for card in cards if page_of(card["experiment"]) == name]
        here.sort(key=lambda card: (_rank(card["experiment"]), place_of(card["experiment"])))
        if not here:
            continue
        counts = Counter(claim["verdict"] for card in here for claim in card["claims"])
        groups.append(
            {
                "name": name,
                "title": title,
                "page": f"{name}.html",
                "cards": here,
                "held": counts["held"],
                "failed": counts["not held"],
                "undecided": counts["undecided"],
                "unmeasured": counts["not measured"],
                "unfinished": sum(card["valid"] < card["expected"] for card in here),
            }
        )
    return groups


def _rank(experiment: Experiment) -> int:
    last = any(word in experiment.id for word in ("readings", "regions", "calibration"))
    return 0 if experiment.main else 2 if last else 1


def _claim_row(claim: Verdict) -> dict[str, Any]:
    """Return a claim as text: its verdict and the numbers behind it."""
    verdict = {"holds": "held", "does not hold": "not held"}.get(claim.word, claim.word.value)
    return {
        "id": claim.id,
        "text": claim.text,
        "kind": claim.kind.value,
        "verdict": verdict,
        "word": claim.word.value,
        "mark": MARKS[verdict],
        "css": verdict.replace(" ", "-"),
        "measured": [(label(key), number(value)) for key, value in claim.measured.items()],
        "rests_on": claim.foregone or claim.basis or "",
        "foregone": claim.foregone and claim.foregone.value,
        "foregone_because": claim.foregone_because,
        "interval": _interval(claim.sample),
        "why": claim.why,
        "cause": claim.cause and claim.cause.value,
        "post_hoc": claim.post_hoc,
        "rule": claim.rule,
    }


def _interval(sample: Sample | None) -> str:
    """Return the median of the samples with its 95 % interval; empty where no sample was taken."""
    if sample is None:
        return ""
    runs = f"{sample.n} {'sample' if sample.n == 1 else 'samples'}"
    if sample.low is None or sample.high is None:
        return f"{sample.value:z.4g}, {runs}: too few for an interval"
    return f"{sample.value:z.4g} [{sample.low:z.4g}, {sample.high:z.4g}], {runs}"


_STATUS = {
    OK: "was valid",
    INVALID: "was invalid",
    FAILED: "failed",
    SKIPPED: "was skipped, because it cannot be made",
}


def _attempts(campaign: Campaign) -> Iterator[dict[str, str]]:
    """Yield every attempt that did not count, or counts with a doubt."""
    chosen = {record.run for record in campaign.records}
    for record in sorted([*campaign.records, *campaign.others], key=lambda r: r.run):
        reason = record.reason or record.again
        if reason is None and record.run in chosen:
            continue
        replaced = record.status == OK and record.run not in chosen
        newer = ", and a newer one stands for it" if replaced else ""
        yield {
            "run": record.run,
            "css": "soft" if record.status == OK else "not-held",
            "words": f"(attempt {record.attempt}) {_STATUS[record.status]}{newer}",
            "reason": reason or "",
        }


def _busy(record: Record) -> Iterator[str]:
    """Yield the passes of a run during which others used much of the machine, in words."""
    for prefix, name in (("twin_", "twin"), ("", "failures")):
        load = ForeignLoad(
            foreign_share=record.values.get(f"{prefix}foreign_share"),
            steal_share=record.values.get(f"{prefix}steal_share"),
        )
        if others := record.values.get(f"{prefix}other_clusters"):
            clusters = "cluster" if others == 1 else "clusters"
            yield f"{record.run} ({name}): {others} other {clusters} ran on the machine"
        if load.high:
            yield (
                f"{record.run} ({name}): other processes used {load.foreign_share or 0:.0%} of "
                f"the machine, and the hypervisor kept {load.steal_share or 0:.0%}"
            )


def command(judged: Assessment) -> str:
    """Return the command that measures the same again, with the user's options and points."""
    campaign, newest = judged.campaign, judged.campaign.newest
    words = ["./faultline run", judged.experiment.id, f"--profile {judged.profile.value}"]
    words.append(f"--seed {newest.root_seed}")
    if newest.repeats != judged.experiment.measurement.repeats[judged.profile]:
        words.append(f"--repeats {newest.repeats}")
    if len(campaign.backends) == 1 and campaign.backends[0] in {*BACKENDS} - {DEFAULT}:
        words.append(f"--cluster {campaign.backends[0]}")
    for name, value in _given(newest):
        given = value["path"] if isinstance(value, dict) and "path" in value else value
        words.append(f"--{name} {shlex.quote(str(given))}")
    if campaign.left_out and len({point_key(r.point, 0) for r in campaign.records}) == 1:
        point = campaign.records[0].point
        words.append("--point " + ",".join(f"{key}={value}" for key, value in point.items()))
    return " ".join([*words, "--again"])


def _given(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the user's options with their values, one of a list at a time."""
    for name, value in record.options.items():
        yield from ((name, each) for each in (value if isinstance(value, list) else [value]))


_OWN = {"workload": "own workload", "failures": "own failure schedule", "text": "own text"}


def _own_parts(record: Record) -> list[str]:
    """Return the user's own files that the runs used, in words."""
    return [
        f"{_OWN[name]} {value['path']}"
        for name, value in _given(record)
        if name in _OWN and isinstance(value, dict)
    ]


def number(value: Any) -> str:
    """Return a measured value as text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, dict):
        parts = (f"{label(str(key))}: {number(item)}" for key, item in value.items())
        return "; ".join(parts) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(number(item) for item in value) or "none"
    if hasattr(value, "item"):
        return number(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "–"
    if isinstance(value, int | float) and 10_000 <= abs(value) < 1e15:
        return f"{float(f'{value:.4g}') if isinstance(value, float) else value:,.0f}"
    if isinstance(value, float):
        return f"{value:z.4g}"
    return str(value)


def _count(claims: Sequence[Verdict]) -> str:
    counts = Counter(claim.word for claim in claims)
    open_ = f"{counts[Word.UNDECIDED]} are undecided, " if counts[Word.UNDECIDED] else ""
    return (
        f"{counts[Word.HOLDS]} claims hold, {counts[Word.DOES_NOT_HOLD]} do not, {open_}"
        f"{counts[Word.NOT_MEASURED]} were not measured."
    )
