"""Word count on Quix Streams, in windows that give one final result.

Its words go by one key to one partition, which counts them all: so an empty line, which only moves
time on, reaches every count. Started by Faultline on each node, from engine.yaml."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from quixstreams import Application
from quixstreams.kafka.configuration import ConnectionConfig

job = json.loads(Path("job.json").read_text())
app = Application(
    broker_address=ConnectionConfig.from_librdkafka_dict(job["kafka"]),
    consumer_group=job["group"],
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=0.2,
    consumer_poll_timeout=0.1,
    consumer_extra_config={"session.timeout.ms": 6000, "heartbeat.interval.ms": 2000},
    producer_extra_config={"transaction.timeout.ms": 10_000},
    state_dir="state",
    loglevel="WARNING",
)
lines = app.topic(job["in"]["lines"]["topic"], value_deserializer="bytes", key_deserializer="bytes")
out = app.topic(job["out"]["topic"], value_serializer="json", key_serializer="bytes")


def count(line: bytes | None) -> Counter[str]:
    words = re.split(rb"[^A-Za-z0-9_]+", line or b"")
    return Counter(word.decode().lower() for word in words if word)


def add(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {word: counts.get(word, 0) + more.get(word, 0) for word in {**counts, **more}}


def results(window: dict[str, Any]) -> list[dict[str, Any]]:
    start = window["start"]
    return [{"window_start": start, "word": w, "count": n} for w, n in window["value"].items()]


frame = app.dataframe(lines).apply(count).group_by(lambda counts: "all", name="all")
frame = frame.hopping_window(
    round(job["window_s"] * 1000),
    round(job["slide_s"] * 1000),
    grace_ms=round(job["watermark_delay_s"] * 1000),
).reduce(add, dict)
frame = frame.final(closing_strategy="partition").apply(results, expand=True)
frame.to_topic(out, key=lambda result: b"")
print("ready", flush=True)
app.run()
