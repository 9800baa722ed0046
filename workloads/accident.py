"""Accident detection, the workload of the edge paper (edge, section V-B and Fig. 4).

Sensors report every car that passes. Reports of cars that stand (speed at most ε) are gathered
by location in tumbling windows of one second; a location with standing cars in a window is
reported and goes into a database table (`workloads.toolkit.result_table`). Tuples up to one
second out of order are taken, the paper's lag; in event time, so that a failure drops nothing by
itself.

A result is one row per window and location: ``window_start`` (the paper's win_id), ``location``,
and ``car_ids``, the cars in ascending order as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from datasets.accident import REPORT, SENSOR_ERROR_KMH
from harness.seeds import derive_seed
from harness.topology.model import Edge, Operator, Topology
from harness.topology.model import Query as Question
from workloads.base import QUERY, TASKS, Entry, Query, Reference, Source, Workload
from workloads.toolkit import operators as ops
from workloads.toolkit.durations import interval
from workloads.toolkit.records import behind_watermark, whole

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

WINDOW_S = 1
LAG_S = 1
CARS_PER_S = 100.0
"""Reports per second and gateway in the paper."""
STANDING = pa.schema([("location", pa.int64()), ("car", pa.int64())])
RESULT = pa.schema(
    [("window_start", pa.timestamp("us")), ("location", pa.int64()), ("car_ids", pa.string())]
)


def accidents(
    *,
    seed: int = 0,
    partitions: int = 14,
    cars: int = 100,
    start_s: int = 0,
    epsilon_kmh: int = SENSOR_ERROR_KMH,
    aggregators: int | None = None,
) -> Workload:
    """Detect accidents on simulated roads, one partition each.

    Send at ``partitions`` × ``cars`` records a second for real time (the paper's 1,400/s).
    ``start_s`` seconds of traffic have passed when the run begins; accidents take a while to come.
    ``aggregators`` is for the topology of tasks (`program`)."""
    shape = {"seed": seed, "partitions": partitions, "cars": cars, "start_s": start_s}
    return Workload(
        name="accidents",
        sources=[
            Source(
                name="cars",
                records=Reference(target="datasets.accident:Cars", parameters=shape),
                partitions=partitions,
            )
        ],
        forms={
            QUERY: _query(epsilon_kmh),
            TASKS: Reference(
                target="workloads.accident:program",
                parameters={
                    "filters": partitions,
                    "aggregators": aggregators,
                    "epsilon_kmh": epsilon_kmh,
                },
            ),
        },
        identity=["window_start", "location"],
        values=["car_ids"],
        window_start="window_start",
        window_s=WINDOW_S,
        slide_s=WINDOW_S,
        watermark_delay_s=LAG_S,
        members=lambda row: {(row["location"], car) for car in row["car_ids"].split()},
        contributions=partial(_contributions, epsilon_kmh),
        into_table=True,
        reference=Reference(
            target="workloads.accident:accidents",
            parameters={**shape, "epsilon_kmh": epsilon_kmh, "aggregators": aggregators},
        ),
    )


def _query(epsilon_kmh: int) -> Query:
    def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

        standing = whole(sources["cars"], REPORT, interval(LAG_S)).where(
            behind_watermark(F.col("speed") <= epsilon_kmh)
        )
        window = F.window("timestamp", interval(WINDOW_S)).alias("window")
        cars = F.array_join(F.array_sort(F.collect_set("car")), " ")
        return (
            standing.groupBy(window, "location")
            .agg(cars.alias("car_ids"))
            .select(F.col("window.start").alias("window_start"), "location", "car_ids")
        )

    return query


def _contributions(
    epsilon_kmh: int, source: str, payloads: Sequence[bytes], event_ms: NDArray[np.int64]
) -> pd.DataFrame:
    import pandas as pd

    fields = REPORT.decode(payloads)
    standing = np.flatnonzero(fields["speed"] <= epsilon_kmh)
    event = event_ms[standing]
    return pd.DataFrame(
        {
            "record": standing,
            "window_start": event - event % (WINDOW_S * 1000),
            "location": fields["location"][standing],
        }
    )


# The same as a topology of tasks


def program(
    *,
    timeline: ops.Timeline,
    rate: float | None = None,
    filters: int = 14,
    aggregators: int | None = None,
    epsilon_kmh: int = SENSOR_ERROR_KMH,
) -> ops.TableProgram:
    """Source and filter in one task per gateway, aggregators, and the table's one writer.

    14 filters and 2 aggregators are the paper's; with fewer than four filters there is one
    aggregator. ``rate`` is records per second in all, 100 for each filter by default. About 1 %
    of the cars stand."""
    if aggregators is None:
        aggregators = 2 if filters >= 4 else 1
    each = CARS_PER_S if rate is None else rate / filters
    topology = Topology(
        operators=(
            Operator(
                name="filter", parallelism=filters, rate=(float(each),) * filters, selectivity=0.01
            ),
            Operator(name="aggregate", parallelism=aggregators),
            Operator(name="table", parallelism=1),
        ),
        edges=(
            Edge(
                upstream="filter",
                downstream="aggregate",
                partitioning=ops.merging(filters, aggregators),
            ),
            Edge(
                upstream="aggregate", downstream="table", partitioning=ops.merging(aggregators, 1)
            ),
        ),
    )

    def task(operator: str, index: int) -> ops.TableTask:
        if operator == "filter":
            return Standing(epsilon_kmh)
        return ByLocation(timeline) if operator == "aggregate" else ops.Forward(RESULT)

    return ops.TableProgram(
        topology=topology, task=task, sources={"filter": "cars"}, timeline=timeline
    )


HIGHWAYS = ("north", "south")
FAR = 100_000
"""Distance between the locations of two highways, above that of all roads of one."""


def two_highways(
    *,
    seed: int = 0,
    roads: int = 2,
    cars: int = 1_000,
    share: float = 0.75,
    swaps_s: float | None = None,
    priorities: Sequence[int] = (),
    epsilon_kmh: int = SENSOR_ERROR_KMH,
) -> Workload:
    """Detect accidents on two highways with ``roads`` partitions each.

    The northern one has a ``share`` of all reports, from ``swaps_s`` on the southern one. Each has
    an aggregator of its own, both the one writer of the table. With ``priorities`` each highway is
    a query of its own, with its own writer."""
    parameters = {
        "roads": roads,
        "share": share,
        "priorities": [*priorities],
        "epsilon_kmh": epsilon_kmh,
    }
    one = accidents(partitions=roads, cars=cars, epsilon_kmh=epsilon_kmh)
    shares = (share, 1 - share)
    return replace(
        one,
        name="two-highways",
        sources=[
            Source(
                name=name,
                records=Reference(
                    target="datasets.accident:Cars",
                    parameters={
                        "seed": derive_seed(seed, name),
                        "partitions": roads,
                        "cars": cars,
                    },
                ),
                partitions=roads,
                share=shares[number],
                later=None if swaps_s is None else (swaps_s, shares[1 - number]),
            )
            for number, name in enumerate(HIGHWAYS)
        ],
        forms={
            TASKS: Reference(target="workloads.accident:highways", parameters=parameters),
        },
        contributions=None,
        into_table=False,
        reference=Reference(
            target="workloads.accident:two_highways",
            parameters={**parameters, "seed": seed, "cars": cars, "swaps_s": swaps_s},
        ),
    )


def highways(
    *,
    timeline: ops.Timeline,
    rate: float | None = None,
    roads: int = 2,
    share: float = 0.75,
    priorities: Sequence[int] = (),
    epsilon_kmh: int = SENSOR_ERROR_KMH,
) -> ops.TableProgram:
    """Return the tasks of `two_highways`; ``rate`` is records per second in all."""
    writers = {name: f"table-{name}" if priorities else "table" for name in HIGHWAYS}
    sinks = [*dict.fromkeys(writers.values())]
    total = 2 * roads * CARS_PER_S if rate is None else rate
    shares = dict(zip(HIGHWAYS, (share, 1 - share), strict=True))
    topology = Topology(
        operators=(
            *(
                Operator(name=name, parallelism=roads, rate=(total * shares[name] / roads,) * roads)
                for name in HIGHWAYS
            ),
            *(Operator(name=f"aggregate-{name}", parallelism=1) for name in HIGHWAYS),
            *(Operator(name=name, parallelism=1) for name in sinks),
        ),
        edges=(
            *(
                Edge(
                    upstream=name,
                    downstream=f"aggregate-{name}",
                    partitioning=ops.merging(roads, 1),
                )
                for name in HIGHWAYS
            ),
            *(
                Edge(
                    upstream=f"aggregate-{name}",
                    downstream=writers[name],
                    partitioning=ops.merging(1, 1),
                )
                for name in HIGHWAYS
            ),
        ),
        queries=tuple(
            Question(name=name, sink=writers[name], priority=priority)
            for name, priority in zip(HIGHWAYS, priorities, strict=False)
        ),
    )

    def task(operator: str, index: int) -> ops.TableTask:
        if operator in HIGHWAYS:
            return Standing(epsilon_kmh, from_location=HIGHWAYS.index(operator) * FAR)
        return ByLocation(timeline) if operator.startswith("aggregate") else ops.Forward(RESULT)

    return ops.TableProgram(
        topology=topology,
        task=task,
        sources={name: name for name in HIGHWAYS},
        timeline=timeline,
    )


class Standing(ops.TableTask):
    """Reports of cars at ε or slower."""

    def __init__(self, epsilon_kmh: int, *, from_location: int = 0) -> None:
        """Count locations from ``from_location``."""
        self.epsilon_kmh, self.from_location = epsilon_kmh, from_location

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        _, raw = ops.whole_records(ops.joined(inputs, ops.SOURCE_SCHEMA), REPORT.size)
        fields = REPORT.decode(raw)
        slow = fields["speed"] <= self.epsilon_kmh
        places = fields["location"][slow] + self.from_location
        return None, (pa.table([places, fields["car"][slow]], schema=STANDING),)


class ByLocation(ops.PaneTask):
    """The standing cars of each location in each window. A road is in one task as a whole."""

    schema, result = STANDING, RESULT

    def add(self, pane: pa.Table, inputs: Sequence[pa.Table]) -> pa.Table:
        return ops.distinct(ops.joined([pane, *inputs], STANDING), STANDING.names)

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        standing = ops.distinct(ops.joined(panes, STANDING), STANDING.names)
        locations, cars = ops.numbers(standing, "location"), ops.numbers(standing, "car")
        order = np.lexsort((cars, locations))
        found, first = np.unique(locations[order], return_index=True)
        texts = [" ".join(map(str, part.tolist())) for part in np.split(cars[order], first[1:])]
        return pa.table(
            {
                "window_start": ops.timestamps(np.full(len(found), window_start_us)),
                "location": found,
                "car_ids": pa.array(texts[: len(found)], pa.string()),
            },
            schema=RESULT,
        )


ENTRY = Entry(
    name="accidents",
    label="accident detection",
    paper="edge",
    make=accidents,
    paper_rate_per_s=14 * CARS_PER_S,
)
