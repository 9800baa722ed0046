"""A made-up engine: sums of numbers in windows, on the first node, from the start after a kill."""

import json
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
window_ms, late_ms = round(job["window_s"] * 1000), round(job["watermark_delay_s"] * 1000)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def reader(topic: str, partitions: int) -> tuple[Consumer, int]:
    found = Consumer({**job["kafka"], "group.id": job["node"], "fetch.wait.max.ms": 10})
    places = [TopicPartition(topic, number, 0) for number in range(partitions)]
    found.assign(places)
    return found, sum(found.get_watermark_offsets(place, timeout=10)[1] for place in places)


def say(event: str) -> None:
    said = {"event": event, "at_ms": time.time() * 1000, "target": job["node"], "cause": "start"}
    print(json.dumps(said), flush=True)


(records, _), (results, due) = reader(**source), reader(**out)
done = set[int]()
while due > len(done):
    done |= {json.loads(message.value())["window_start"] for message in results.consume(500, 0.1)}
if done:
    say("detected")
if fault == "child":
    subprocess.Popen(["sleep", "600"])
print("" if fault == "silent" else "ready", flush=True)
while job["node"] != job["nodes"][0]:
    signal.pause()
producer = Producer({**job["kafka"], "linger.ms": 0})
sums, newest = Counter[int](), dict[int, int]()
while True:
    for message in records.consume(500, 0.02):
        at = newest[message.partition()] = message.timestamp()[1]
        if message.value():
            start = at - at % window_ms
            sums[start] += int(message.value().split(b":")[1])
    closed = min(newest.values()) if len(newest) == source["partitions"] else 0
    for start in [each for each in sums if each + window_ms + late_ms <= closed]:
        result = json.dumps({"window_start": start, "sum": sums.pop(start)})
        if start not in done:
            producer.produce(out["topic"], "?" if fault == "garbled" else result, partition=0)
            if done:
                say("recovered")
            done = set()
    producer.flush(10)
