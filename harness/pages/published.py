"""The numbers that papers print, each beside ours, and how many of them are near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from harness.claims.cells import Compared, Nearness
from harness.claims.samples import Sample
from harness.measure.metrics import label
from harness.measurement import Origin
from harness.pages.assessment import Assessment

Row = dict[str, Any]
_CLASSES = {
    Nearness.TENTH: "held",
    Nearness.LIMIT: "held",
    Nearness.FAR: "not-held",
    Nearness.MISSING: "not-measured",
}


def rows_of(item: Assessment) -> list[Row]:
    """Return a row per number that the figure's paper prints, in words."""
    tables = item.tables()
    return [_row(each) for printed in item.experiment.printed for each in printed.compared(tables)]


def _row(each: Compared) -> Row:
    printed = each.printed
    key = ", ".join(
        value if isinstance(value, str) else f"{label(name)} {value:g}"
        for name, value in zip(printed.by, each.key, strict=True)
    )
    return {
        "what": f"{printed.what}: {key}" if key else printed.what,
        "place": printed.place,
        "printed": f"{printed.bound} {each.value:g} {printed.unit}".strip(),
        "ours": "–" if each.ours is None else f"{_in_words(each.ours)} {printed.unit}".strip(),
        "factor": "–" if each.factor is None else f"{each.factor:.2f}",
        "nearness": each.nearness.value,
        "css": _CLASSES.get(each.nearness, ""),
        "why": printed.why,
    }


def _in_words(sample: Sample) -> str:
    if sample.low is None or sample.high is None:
        return f"{sample.value:z.4g}"
    ends = f"{sample.low:z.4g} to {sample.high:z.4g}"
    return f"{sample.value:z.4g}" if sample.low == sample.high else f"{sample.value:z.4g} ({ends})"


def counts(rows: Iterable[Row]) -> list[tuple[str, Sequence[int]]]:
    """Return for each origin, and for all, how many numbers are how near (as `Nearness`).

    A row has its figure's ``origin``."""
    rows = list(rows)
    groups = {origin.value: [row for row in rows if row["origin"] == origin.value]
              for origin in Origin}  # fmt: skip
    groups["all"] = rows
    return [(name, _counted(group)) for name, group in groups.items() if group]


def _counted(rows: Sequence[Row]) -> Sequence[int]:
    number = Counter(row["nearness"] for row in rows)
    return [number[nearness.value] for nearness in Nearness]


def sentence(rows: Sequence[Row]) -> str:
    """Return how many numbers are near, in a sentence."""
    tenth, limit, twice, order, apart, missing = _counted(rows)
    return (
        f"Of {len(rows)} numbers that papers print, {len(rows) - missing} are measured, simulated "
        f"or computed here: {tenth} within 10 %, {limit} within the printed limit, {twice} more "
        f"within a factor of two, {order} in order only, and {apart} apart."
    )
