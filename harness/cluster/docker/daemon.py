"""The Docker daemon: one way in, remedies for every refusal, and the image of this checkout.

The image is built from ``docker/Dockerfile`` when its contents change."""

from __future__ import annotations

import io
import os
import socket
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure
from harness.text import Notify

RUN_LABEL = "faultline.run"
"""On every container and network of a cluster: its run."""
ROLE_LABEL = "faultline.role"
"""On a container: its worker's name, or "once" for one that lives for a command."""
IMAGE_LABEL = "faultline.image"
"""On every image that was built here: the hash of what it was built from."""

_TIMEOUT_S = 120
_SOCKET = "unix:///var/run/docker.sock"
"""Where the SDK looks without DOCKER_HOST."""


def connect() -> Any:
    """Return a client of the daemon that DOCKER_HOST names, else of the usual socket.

    Raises `EnvironmentFailure` with the reason when there is none."""
    scheme, _, path = os.environ.get("DOCKER_HOST", _SOCKET).partition("://")
    try:
        # Before the SDK, which takes a quarter of a second to load and would leave its socket open.
        if scheme == "unix":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
                knocking.connect(path)
    except OSError as error:
        raise refusal(error) from error
    from docker.errors import DockerException

    import docker

    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
    except (DockerException, OSError) as error:
        raise refusal(error) from error
    return client


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


REPOSITORY_NAME = "faultline"
BASE_VARIABLE = "FAULTLINE_DOCKER_BASE"
_CONTEXT = (
    "build.lock", "requirements.lock", "docker/Dockerfile", "docker/fetch.py",
    "harness", "workloads", "datasets",
)  # fmt: skip
"""Files and folders of the image. A record depends on those that are named as files."""
_LEFT_OUT = ("__pycache__", ".md")


def python_version() -> str:
    """Return the minor version that driver and executors must share."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def base_image() -> str:
    """Return FAULTLINE_DOCKER_BASE, else the official slim image of this Python."""
    return os.environ.get(BASE_VARIABLE) or f"python:{python_version()}-slim-bookworm"


def ensure_image(client: Any, report: Notify) -> str:
    """Return the tag of an image with this checkout, after building it if there is none.

    Raises `EnvironmentFailure` with the builder's last lines. Older images of this kind are
    removed; their layers serve the new one."""
    from docker.errors import ImageNotFound

    files = list(context_files(REPOSITORY))
    digest = content_hash(files, REPOSITORY, base_image())
    tag = f"{REPOSITORY_NAME}:{digest}"
    with failing("the daemon's images cannot be listed"):
        try:
            client.images.get(tag)
        except ImageNotFound:
            build(client, tag, digest, files, report)
    _remove_older(client, tag)
    return tag


def context_files(root: Path) -> Iterator[Path]:
    """Yield every file of the image."""
    for name in _CONTEXT:
        top = root / name
        for path in sorted([top] if top.is_file() else top.rglob("*")):
            if path.is_file() and not any(
                part in str(path.relative_to(root)) for part in _LEFT_OUT
            ):
                yield path


def content_hash(files: Iterable[Path], root: Path, base: str) -> str:
    """Return 12 hexadecimal digits that change with any file, any name and the base image."""
    digest = sha256(base.encode())
    for path in files:
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def build(client: Any, tag: str, digest: str, files: list[Path], report: Notify) -> None:
    """Build the image ``tag``; raises `EnvironmentFailure` with the daemon's last lines."""
    report(f"building the image {tag} (the first time several minutes)")
    lines: list[str] = []
    with failing(f"the image {tag} could not be built"):
        stream = client.api.build(
            fileobj=_archive(files),
            custom_context=True,
            dockerfile="docker/Dockerfile",
            tag=tag,
            buildargs={"BASE": base_image(), "PYTHON": python_version()},
            labels={IMAGE_LABEL: digest},
            # A build reaches the package index as this machine does, proxies included.
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
            timeout=3600,
        )
        for event in stream:
            if text := event.get("stream", "").strip():
                lines.append(text)
                if text.startswith("Step "):
                    report(text.splitlines()[0][:100])
            if "error" in event:
                raise build_failure(tag, lines, str(event["error"]))


def build_failure(tag: str, lines: list[str], error: str) -> EnvironmentFailure:
    """Return the error for a builder's last lines."""
    text = "\n".join([*lines[-40:], error])
    last = "\n".join(f"    {line}" for line in text.splitlines()[-8:])
    return EnvironmentFailure(
        f"the image {tag} could not be built from {base_image()}; the builder's last words:\n"
        f"{last}",
        remedy=_remedy(text),
    )


def _remedy(text: str) -> str:
    # The builder shows every command before it runs it: that one has a variable for the number.
    if f"has no Python {python_version()}" in text or "python3: not found" in text:
        return (
            f"name a base image with Python {python_version()}, its venv module and pip in "
            f"{BASE_VARIABLE}"
        )
    # The daemon, a Go program, "dials" registries; pip does not.
    if any(
        word in text for word in ("pull access denied", "manifest unknown", "registry", "dial ")
    ):
        return (
            f"the base image cannot be pulled: see whether `docker pull {base_image()}` works, or "
            f"name an image that is there in {BASE_VARIABLE}"
        )
    if any(
        word in text.lower() for word in ("temporary failure in name", "connection", "timed out")
    ):
        return (
            "the build has no way to the package index: give the daemon the proxy that this "
            "machine uses, or build the image elsewhere and load it with `docker load`"
        )
    if "no space left on device" in text:
        return "free some disk space where the daemon keeps its images (`docker system df`)"
    return "build it by hand as docker/Dockerfile says, and read all of what the builder writes"


def _archive(files: Iterable[Path]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in files:
            entry = tar.gettarinfo(path, str(path.relative_to(REPOSITORY)))
            # Owner and time would miss the builder's cache for a file that is the same.
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") as file:
                tar.addfile(entry, file)
    buffer.seek(0)
    return buffer


def _remove_older(client: Any, tag: str) -> None:
    from docker.errors import APIError

    for image in client.images.list(name=REPOSITORY_NAME, filters={"label": IMAGE_LABEL}):
        for other in set(image.tags) - {tag}:
            try:
                client.images.remove(other)
            except APIError:  # a container of another cluster uses it
                continue
