"""One word for one thing in the columns of tables (docs/glossary.md: failure, outage, recovery)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.parquet

from harness.results import load

SYNONYMS = frozenset(
    {"away", "calm", "died", "down", "felt", "gap", "gone", "hit", "incident", "injected", "loss",
     "outages", "regained", "silence", "silent", "victim"}
)  # fmt: skip
"""Words for what breaks, for its end and for the time between that are not the glossary's."""
LEFT = {
    "died": "why an engine ended before its pass did",
    "down_s": "the planned length of a failure",
    "hit_work": "whether something ran where a failure fell",
    "injected": "failures carried out in a pass",
    "output_gap_s": "the longest time without a result during a recovery",
    "silence_s": "the same, as seen from outside",
    "twin_silence_s": "the same at that instant of the twin",
}
"""Columns with another word, and what they mean. A new name needs a translation of old records; the
list only gets shorter."""


def columns() -> Iterator[str]:
    """Yield the columns and values of one shipped record of each experiment."""
    newest = {each.record.experiment: each for each in load().found}
    for each in newest.values():
        yield from (*each.record.point, *each.record.values)
        for name in each.series:
            yield from pyarrow.parquet.read_schema(each.directory / f"{name}.parquet").names


def test_columns_use_the_words_of_the_glossary() -> None:
    found = {column for column in columns() if SYNONYMS & set(column.lower().split("_"))}
    assert found == LEFT.keys(), "use the glossary's word; take from LEFT what is no more"
