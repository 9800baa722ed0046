"""Checks of this machine for the backends other than the local one, for `faultline doctor`."""

from __future__ import annotations

from contextlib import closing

from harness.environment.doctor import Finding, Status
from harness.errors import EnvironmentFailure


def examine() -> list[Finding]:
    """Return optional findings, each with its use."""
    return [_networks(), _docker()]


def _networks() -> Finding:
    from harness.cluster.local.network import why_not

    why = why_not()
    if why is None:
        return Finding(
            name="networks of workers",
            status=Status.OK,
            detail="--network namespaces can be used: real cuts, bytes counted per worker",
        )
    return Finding(
        name="networks of workers",
        status=Status.WARNING,
        detail=f"--network namespaces cannot be used ({why}); loopback addresses serve instead",
        remedy="only for experiments that cut nodes off: allow user namespaces, or use "
        "--cluster docker",
    )


def _docker() -> Finding:
    from harness.cluster.docker.daemon import connect

    try:
        with closing(connect()) as client:
            version = client.version()["Version"]
    except EnvironmentFailure as failure:
        return Finding(
            name="docker",
            status=Status.WARNING,
            detail=f"--cluster docker cannot be used: {failure.what}",
            remedy=failure.remedy,
        )
    return Finding(name="docker", status=Status.OK, detail=f"a daemon answers, {version}")
