"""Records taken apart by Spark, without losing the ones that only move event time.

Tests: ``tests/workloads/test_agreement.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasets.fields import Layout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


UNSEEN_REMEDY = (
    "Spark moves a filter on a record or on a grouping key in front of the watermark, also one "
    "that stands after the aggregation: filter on an aggregate instead, such as "
    '.where(F.col("orders") > 0) with F.count(...), or use '
    "workloads.toolkit.records.behind_watermark"
)


def behind_watermark(condition: Column, *, time: str = "timestamp") -> Column:
    """``condition`` as a filter that stays behind the watermark on ``time``.

    Spark moves a filter in front of ``withWatermark`` unless it reads the event time. A record
    that such a filter drops would not move event time on, and the markers that close the last
    windows are dropped by every query. So this filter reads the event time: its sign says
    whether the condition holds. (Both branches must read it, or the optimizer takes the
    condition out again.)"""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

    instant = F.unix_micros(time)
    return F.when(condition, instant).otherwise(-instant) > 0


def whole(source: DataFrame, layout: Layout, delay: str) -> DataFrame:
    """Return a source's event time and fields, with a watermark ``delay`` behind.

    Records of another length are left out, markers among them; they still move the watermark."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("value").cast("string")

    def number(name: str) -> Column:
        # Never null, not even for a marker: a join infers filters on its keys' being there, and
        # those, too, would be moved in front of the watermark.
        field = F.substring(text, layout.start(name) + 1, layout.widths[name])
        return F.coalesce(field.try_cast("long"), F.lit(-1)).alias(name)

    return (
        source.withWatermark("timestamp", delay)
        .where(behind_watermark(F.length("value") == layout.size))
        .select("timestamp", *(number(name) for name in layout.widths))
    )
