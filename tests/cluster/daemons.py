"""The availability of containers here, and the remains of a run at the daemon."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster.docker import daemon
from harness.cluster.docker.daemon import RUN_LABEL, ensure_image
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import silent


def client_or_skip() -> Any:
    """Connect to a daemon with the image, or build it.

    A lack of the machine (a daemon, a base image, a way to the package index) skips; a Dockerfile
    that cannot be built fails."""
    try:
        client = daemon.connect()
    except EnvironmentFailure as failure:
        pytest.skip(f"no Docker daemon: {failure.what}")
    try:
        ensure_image(client, silent)
    except EnvironmentFailure as failure:
        if any(words in failure.remedy for words in ("cannot be pulled", "no way to the package")):
            pytest.skip(f"no image can be built here: {failure.remedy}")
        raise
    return client


def left_of(run: str) -> list[Any]:
    """Return containers and networks of a run."""
    client = daemon.connect()
    chosen = {"label": f"{RUN_LABEL}={run}"}
    return [
        *client.containers.list(all=True, filters=chosen),
        *client.networks.list(filters=chosen),
    ]
