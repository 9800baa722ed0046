"""The Docker daemon: one way in, and remedies for every way it can refuse."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from harness.errors import EnvironmentFailure

RUN_LABEL = "faultline.run"
"""On every container and network of a cluster: its run."""
ROLE_LABEL = "faultline.role"
"""On a container: kafka, redis, master, or the worker's name."""
IMAGE_LABEL = "faultline.image"
"""On every image that was built here: the hash of what it was built from."""

_TIMEOUT_S = 120
_SOCKET = "unix:///var/run/docker.sock"
"""Where the SDK looks without DOCKER_HOST."""


def connect() -> Any:
    """Return a client of the daemon that DOCKER_HOST names, else of the usual socket.

    Raises `EnvironmentFailure` with the reason when there is none."""
    try:
        _knock()
    except OSError as error:  # before the SDK is loaded, which takes a quarter of a second
        raise refusal(error) from error
    from docker.errors import DockerException

    import docker

    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
    except (DockerException, OSError) as error:
        raise refusal(error) from error
    return client


def _knock() -> None:
    """Raise `OSError` where nothing listens on the daemon's socket.

    The SDK would raise an error, too, but leave its own socket open."""
    scheme, _, path = os.environ.get("DOCKER_HOST", _SOCKET).partition("://")
    if scheme == "unix":
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as knocking:
            knocking.connect(path)


def refusal(error: BaseException) -> EnvironmentFailure:
    """Return the error for a failed connection."""
    text = str(error)
    if "Permission denied" in text or "PermissionError" in text:
        return EnvironmentFailure(
            "the Docker daemon's socket may not be used by this user",
            remedy="add yourself to the group docker and log in again, or use rootless Docker "
            "(DOCKER_HOST=unix://$XDG_RUNTIME_DIR/docker.sock)",
        )
    if "FileNotFoundError" in text or "No such file" in text or "Connection refused" in text:
        return EnvironmentFailure(
            "no Docker daemon answers",
            remedy="install and start one (on Debian: `apt install docker.io`), set DOCKER_HOST to "
            "one that runs, or use --cluster local, which needs none",
        )
    return EnvironmentFailure(
        f"the Docker daemon cannot be used: {text}",
        remedy="`docker info` should work for this user; see what it says",
    )


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn the SDK's errors into ours: ``what`` could not be done."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise EnvironmentFailure(
            f"{what}: {error}",
            remedy="see `docker ps -a` and the daemon's own log; `faultline cluster down` removes "
            "everything that was made",
        ) from error


def remove_run(client: Any, run: str) -> None:
    """Remove every container and network of a run. Does nothing where none is left."""
    from docker.errors import NotFound

    chosen = {"label": f"{RUN_LABEL}={run}"}
    with failing(f"the containers of run {run} could not be removed"):
        for container in client.containers.list(all=True, filters=chosen, ignore_removed=True):
            try:
                container.remove(force=True, v=True)
            except NotFound:  # another command was faster
                continue
        for network in client.networks.list(filters=chosen, greedy=True):
            for attached in list(network.attrs.get("Containers") or {}):
                network.disconnect(attached, force=True)  # a harness in a container of its own
            network.remove()
