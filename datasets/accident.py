"""Cars on ring roads, some of which stop in accidents: the input of accident detection.

The edge paper (section V-B) gives the record and its rate, 14 gateways with 100
reports a second each, and no data. So each partition here is a road with its gateway, simulated
car by car: once a second every car speeds up towards its own desired speed, but never further
than the gap to the car before it, moves by what it drives, and reports to the sensor it passes.
An accident stops a car for a while; the cars behind queue up, and stop as well.

All arithmetic is in whole centimetres, so a road looks the same on every machine. The state at
a second follows from (seed, partition, second) alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from datasets.blocks import BlockSource
from datasets.fields import Layout
from harness.errors import UsageError
from harness.seeds import generator

REPORT = Layout({"car": 5, "location": 5, "speed": 3})
"""A car passes a sensor; the speed is in km/h as the sensor measures it."""

ROAD_M = 20_000
SENSOR_SPACING_M = 100
CAR_CM = 500
KEPT_GAP_CM = 200
ACCELERATION_CM_PER_S = 150
DESIRED_KMH = (70, 120)
SENSOR_ERROR_KMH = 2
"""A sensor reads up to this much too high: a car that stands may report as 2 km/h. This is the
paper's ε, whose value is not printed."""
ACCIDENT_INTERVAL_S = 30.0
"""Mean time between accidents on one road."""
STOPPED_S = (10, 40)

_BLOCK_S = 100
_ROAD_CM = ROAD_M * 100
_NUMBER_SPAN = 1_000
"""Cars and sensors of partition p are numbered from 1000 p."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Road:
    """All cars of one road at one instant; the car after car i drives before it."""

    position_cm: Ints
    speed_cm_per_s: Ints
    stopped_for_s: Ints
    """Seconds that an accident still holds each car; 0 for those that it does not."""

    def gap_cm(self) -> Ints:
        """Free road before each car."""
        ahead = np.roll(self.position_cm, -1)
        return (ahead - self.position_cm) % _ROAD_CM - CAR_CM


def step(road: Road, desired_cm_per_s: Ints) -> Road:
    """Return the same road a second later."""
    possible = np.maximum(road.gap_cm() - KEPT_GAP_CM, 0)
    speed = np.minimum(road.speed_cm_per_s + ACCELERATION_CM_PER_S, desired_cm_per_s)
    speed = np.minimum(speed, possible)
    speed[road.stopped_for_s > 0] = 0
    return Road(
        position_cm=(road.position_cm + speed) % _ROAD_CM,
        speed_cm_per_s=speed,
        stopped_for_s=np.maximum(road.stopped_for_s - 1, 0),
    )


class Cars(BlockSource):
    """Reports of every car once a second, ``partitions`` roads with ``cars`` cars each.

    Record i of a partition is of car i mod ``cars`` at second i // ``cars``: sent at ``cars``
    records a second per partition, the simulation runs in real time. The roads are empty of
    accidents at second 0; ``start_s`` seconds have passed before the first record."""

    def __init__(
        self, *, seed: int, partitions: int = 14, cars: int = 100, start_s: int = 0
    ) -> None:
        if start_s < 0:
            raise UsageError(
                f"reports from {start_s} s on", remedy="give a start_s of 0 or more seconds"
            )
        if not (1 <= partitions <= 99 and 2 <= cars <= 1_000):
            raise UsageError(
                f"{partitions} roads with {cars} cars each",
                remedy="give 1 to 99 partitions (roads) and 2 to 1,000 cars on each",
            )
        super().__init__(seed=seed, name="accident", block_records=cars * _BLOCK_S)
        self.partitions, self.cars, self.start_s = partitions, cars, start_s
        self._roads: dict[int, list[Road]] = {}

    def records(self, partition: int, start_index: int, count: int) -> NDArray[np.void]:
        """Return reports ``start_index`` to ``start_index + count`` after the start."""
        return super().records(partition, start_index + self.start_s * self.cars, count)

    def desired_cm_per_s(self, partition: int) -> Ints:
        """Return the speed of each car on a free road."""
        random = generator(self._seed, "desired speed", partition)
        return random.integers(*DESIRED_KMH, self.cars, endpoint=True) * 100_000 // 3_600

    def _start(self, partition: int, block: int) -> Road:
        """Return the road at the start of a block; earlier blocks are driven through first."""
        if partition not in self._roads:
            spacing = _ROAD_CM // self.cars
            still = np.zeros(self.cars, dtype=np.int64)
            self._roads[partition] = [Road(np.arange(self.cars) * spacing, still, still)]
        starts = self._roads[partition]
        while len(starts) <= block:
            starts.append(self.drive(partition, len(starts) - 1)[-1])
        return starts[block]

    def drive(self, partition: int, block: int) -> list[Road]:
        """Return the road at each of the 100 seconds of ``block`` and at the second after them."""
        random = generator(self._seed, "accidents", partition, block)
        happens = random.random(_BLOCK_S) < 1 / ACCIDENT_INTERVAL_S
        victims = random.integers(0, self.cars, _BLOCK_S)
        lasts_s = random.integers(*STOPPED_S, _BLOCK_S, endpoint=True)
        desired = self.desired_cm_per_s(partition)
        roads = [self._start(partition, block)]
        for second in range(_BLOCK_S):
            road = roads[-1]
            if happens[second]:
                stopped = road.stopped_for_s.copy()
                stopped[victims[second]] = lasts_s[second]
                road = replace(road, stopped_for_s=stopped)
            roads.append(step(road, desired))
        return roads

    def draw(self, random: np.random.Generator, partition: int, indices: Ints) -> NDArray[np.void]:
        roads = self.drive(partition, int(indices[0]) // self._size)[1:]
        position = np.concatenate([road.position_cm for road in roads])
        speed = np.concatenate([road.speed_cm_per_s for road in roads])
        error = random.integers(0, SENSOR_ERROR_KMH, len(indices), endpoint=True)
        first = partition * _NUMBER_SPAN
        return REPORT.encode(
            {
                "car": first + indices % self.cars,
                "location": first + position // (SENSOR_SPACING_M * 100),
                "speed": speed * 3_600 // 100_000 + error,
            }
        )
