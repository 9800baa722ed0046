"""PySpark's daemon on every executor, warm before it forks: ``spark.python.daemon.module``.

Each node is forked from it. Importing and first use of Arrow, Kafka's client and the protocol
take half a second of CPU; thirty nodes that did this at once made one another look dead. Here it
is done once an executor, and what was made by then is frozen, so that the nodes share it.

Tests: ``tests/engines/tasks/test_live.py``."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import daemon

import harness.engines.tasks.node  # noqa: F401  # with all that a node needs
from harness.hosting.codec import decode, encode
from workloads.toolkit.operators import SOURCE_SCHEMA, joined, totals


def warm() -> None:
    """Use for the first time what is slow then."""
    words = pa.array(["a b", "b"])
    flat = pc.list_flatten(pc.split_pattern_regex(words, "[^a-z]+"))
    table = pa.table({"word": pc.ascii_lower(flat), "n": np.ones(3, dtype=np.int64)})
    table = totals(joined([table, table], table.schema), ["word"], ["n"])
    table.filter(pc.equal(table.column("n"), 2)).to_pandas()
    decode(encode((table, SOURCE_SCHEMA.empty_table())))


if __name__ == "__main__":
    warm()
    gc.collect()
    gc.freeze()
    daemon.manager()
