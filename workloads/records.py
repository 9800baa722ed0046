"""Records of fixed width, taken apart by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasets.fields import Layout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def whole(source: DataFrame, layout: Layout, delay: str) -> DataFrame:
    """A source's event time and fields, with a watermark ``delay`` behind.

    Records of another length are left out, markers among them; they move the watermark all the
    same.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

    text = F.col("value").cast("string")

    def number(name: str) -> Column:
        field = F.substring(text, layout.start(name) + 1, layout.widths[name])
        return field.cast("long").alias(name)

    return (
        source.withWatermark("timestamp", delay)
        .where(F.length("value") == layout.size)
        .select("timestamp", *(number(name) for name in layout.widths))
    )
