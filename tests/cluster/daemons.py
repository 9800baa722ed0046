"""Whether a Docker daemon is there, and what a run left with it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster.docker import daemon
from harness.cluster.docker.daemon import RUN_LABEL
from harness.errors import EnvironmentFailure


def client_or_skip() -> Any:
    try:
        return daemon.connect()
    except EnvironmentFailure as failure:
        pytest.skip(f"no Docker daemon: {failure.what}")


def left_of(run: str) -> list[Any]:
    """Containers and networks of a run."""
    client = daemon.connect()
    chosen = {"label": f"{RUN_LABEL}={run}"}
    return [
        *client.containers.list(all=True, filters=chosen),
        *client.networks.list(filters=chosen),
    ]
