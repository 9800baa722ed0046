"""A made-up engine, on the first node: windows of numbers or of words, from the start after a kill.

Its argument is a fault: "silent", "garbled", "child", "forgets" (after a kill it begins with new
records alone)."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

job = json.loads(Path("job.json").read_text())
fault = sys.argv[1] if len(sys.argv) > 1 else ""
(source,), out = job["in"].values(), job["out"]
columns = job["columns"]
window_ms, late_ms = round(job["window_s"] * 1000), round(job["watermark_delay_s"] * 1000)
slide_ms = round(job["slide_s"] * 1000)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def reader(topic: str, partitions: int, *, old: bool = True) -> tuple[Consumer, int]:
    found = Consumer({**job["kafka"], "group.id": job["node"], "fetch.wait.max.ms": 10})
    places = [TopicPartition(topic, number, 0) for number in range(partitions)]
    ends = [found.get_watermark_offsets(place, timeout=10)[1] for place in places]
    for place, end in zip(places, ends, strict=True):
        place.offset = 0 if old else end
    found.assign(places)
    return found, sum(ends)


def say(event: str) -> None:
    said = {"event": event, "at_ms": time.time() * 1000, "target": job["node"], "cause": "start"}
    print(json.dumps(said), flush=True)


def parts(value: bytes) -> Counter[tuple[str, ...]]:
    """Return what a record adds to its windows, by the key of a result."""
    if columns[1:-1]:
        words = re.split(rb"[^A-Za-z0-9_]+", value)
        return Counter((word.decode().lower(),) for word in words if word)
    return Counter({(): int(value.split(b":")[1])})


def identity(result: dict[str, object]) -> tuple[object, ...]:
    return tuple(result[name] for name in columns[:-1])


results, due = reader(**out)
done, seen = set[tuple[object, ...]](), 0
while seen < due:
    for message in results.consume(500, 0.1):
        done.add(identity(json.loads(message.value())))
        seen += 1
if done:
    say("detected")
if fault == "child":
    subprocess.Popen(["sleep", "600"])
records, _ = reader(**source, old=not (done and fault == "forgets"))
print("" if fault == "silent" else "ready", flush=True)
while job["node"] != job["nodes"][0]:
    signal.pause()
producer = Producer({**job["kafka"], "linger.ms": 0})
sums, newest, back = dict[int, Counter[tuple[str, ...]]](), dict[int, int](), not done
while True:
    for message in records.consume(500, 0.02):
        at = newest[message.partition()] = message.timestamp()[1]
        added = parts(message.value()) if message.value() else Counter()
        for start in range(at - at % slide_ms, at - window_ms, -slide_ms) if added else ():
            sums.setdefault(start, Counter()).update(added)
    closed = min(newest.values()) if len(newest) == source["partitions"] else 0
    for start in sorted(each for each in sums if each + window_ms + late_ms <= closed):
        for key, number in sums.pop(start).items():
            result = dict(zip(columns, (start, *key, number), strict=True))
            if identity(result) in done:
                continue
            text = "?" if fault == "garbled" else json.dumps(result)
            producer.produce(out["topic"], text, partition=0)
            if not back:
                say("recovered")
                back = True
    producer.flush(10)
