"""Figures as files of their own, for a paper or a talk, each with its tables as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.figures.style import styled
from harness.pages.assessment import Assessment, assess
from harness.pages.report import campaigns, drawn
from harness.results.store import RecordStore
from harness.running.discovery import all_experiments

FORMATS: Mapping[str, Mapping[str, Any]] = {
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"dpi": 300},
    "svg": {"metadata": {"Date": None}},
}
"""Each format with its arguments of ``savefig``: the same records give the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFigure:
    """One figure, with what was written of it."""

    experiment: str
    files: Sequence[Path]
    error: str | None = None
    """The reason why it could not be drawn; its tables are there if they could be made."""


def write_figures(
    store: RecordStore, folder: Path, formats: Sequence[str], experiment: str | None = None
) -> Iterator[WrittenFigure]:
    """Write every figure of a results directory in these formats, and its tables.

    The profile measured last is drawn. ``experiment`` (an id, or a group) chooses. Where the
    records are of several machines, each has a folder of its own."""
    places = sorted({path.name for path in store.records.glob("*/*/*") if path.is_dir()})
    chosen = [e for e in all_experiments() if experiment in (None, e.id, e.group)]
    for machine in places:
        into = folder / machine if len(places) > 1 else folder
        seen = set()
        for each, profile, campaign in campaigns(store, chosen, machine=machine):
            if each.id not in seen and campaign.valid:
                seen.add(each.id)
                into.mkdir(parents=True, exist_ok=True)
                yield _write(assess(each, profile, campaign), into, formats)


def _write(judged: Assessment, folder: Path, formats: Sequence[str]) -> WrittenFigure:
    name = judged.experiment.anchor
    files = []
    for title, table in judged.tables().items():
        files.append(folder / (f"{name}-{title}.csv" if title else f"{name}.csv"))
        table.to_csv(files[-1], index=False)
    if judged.table is None:
        why = (judged.problem or "no table").strip().splitlines()[-1]
        return WrittenFigure(experiment=judged.experiment.id, files=files, error=why)
    with styled():
        try:
            figure = drawn(judged)
            for kind in formats:
                path = folder / f"{name}.{kind}"
                figure.savefig(path, format=kind, **FORMATS[kind])
                files.append(path)
        except OSError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            return WrittenFigure(experiment=judged.experiment.id, files=files, error=why)
    return WrittenFigure(experiment=judged.experiment.id, files=files)
