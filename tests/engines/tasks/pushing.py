"""librdkafka's own imitation of a broker, with the errors that a test pushes into its answers.

The Python client starts one, but has no way to push errors, so the library is called directly."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
"""Kinds of requests, by Kafka's numbers."""


class PushingBroker:
    """A cluster of one broker that answers requests with pushed errors first."""

    def __init__(self, library: Any, cluster: Any) -> None:
        self._library, self._cluster = library, cluster
        self.client = {
            "bootstrap.servers": library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
        }

    def create(self, topic: str) -> None:
        """Create a topic of one partition."""
        assert self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), 1, 1) == 0

    def push(self, kind: int, codes: Sequence[int]) -> None:
        """Answer the next requests of a kind with these errors, one each."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(kind), ctypes.c_size_t(len(codes)), array
        )


@contextmanager
def pushing_broker() -> Iterator[PushingBroker]:
    """Start a broker in this process; skip the test where the library is built in elsewhere."""
    library = _library()
    if library is None:
        pytest.skip("the client's library is not a file of its own here")
    error = ctypes.create_string_buffer(512)
    client = ctypes.c_void_p(library.rd_kafka_new(0, library.rd_kafka_conf_new(), error, 512))
    assert client.value, error.value
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 1))
    try:
        yield PushingBroker(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


@cache
def _library() -> Any:
    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = sorted(beside.glob("librdkafka*.so*"))
    if not found:
        return None
    library = ctypes.CDLL(str(found[0]))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    library.rd_kafka_conf_new.restype = pointer
    library.rd_kafka_new.restype = pointer
    library.rd_kafka_new.argtypes = [ctypes.c_int, pointer, text, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = pointer
    library.rd_kafka_mock_cluster_new.argtypes = [pointer, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = text
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    library.rd_kafka_mock_topic_create.argtypes = [pointer, text, ctypes.c_int, ctypes.c_int]
    library.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
    library.rd_kafka_destroy.argtypes = [pointer]
    return library
