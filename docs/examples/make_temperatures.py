"""A recording for temperatures.py: half a day of readings of 20 sensors, as Parquet files."""

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

SENSORS, HOURS, BEGIN = 20, 12, datetime(2026, 3, 1, tzinfo=UTC)

chance = random.Random(1)
place = Path(__file__).parent / "temperatures"
place.mkdir(exist_ok=True)
for hour in range(HOURS):
    times = sorted(
        BEGIN + timedelta(hours=hour, seconds=chance.random() * 3600) for _ in range(800)
    )
    readings = {
        "measured_at": times,
        "sensor": [f"roof-{chance.randrange(SENSORS)}" for _ in times],
        "celsius": [8 + 6 * math.sin(hour / 12 * math.pi) + chance.random() for _ in times],
    }
    pyarrow.parquet.write_table(pa.table(readings), place / f"hour-{hour:02}.parquet")
