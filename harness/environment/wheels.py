"""Files of wheels that are fetched on demand, by pip or uv, against a lock with hashes.

The wheel is unpacked into the user's cache and not into the environment: the environment then
remains exactly that of `requirements.lock`, and all checkouts share one copy."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.cache import cache_directory, locked, sha256
from harness.errors import EnvironmentFailure
from harness.text import Notify

LOCKS = Path(__file__).parent
INSTALL_DEADLINE_S = 1800.0

# The user's settings that would send the files elsewhere; index, proxy and certificate settings
# stay in force.
_MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "UV_PYTHON")


def unpacked_wheel(lock: str, *, what: str, report: Notify, python: str | None = None) -> Path:
    """Return the directory of the unpacked wheel of ``lock``, fetched when it is not there yet.

    ``lock`` is the name of a requirements file with hashes next to this module. ``python`` chooses
    the wheel for that version on x86-64 Linux, whatever runs here, for its contents. Raises
    `EnvironmentFailure` when the wheel cannot be fetched."""
    final = wheel_directory(lock)
    if final.is_dir():
        return final
    with locked(final.name, report=report):
        if final.is_dir():
            return final
        report(f"fetching {what}, once")
        _install(LOCKS / lock, final, what=what, python=python)
    return final


def wheel_directory(lock: str) -> Path:
    """Return the directory of the wheel of ``lock``; its name changes with the pins."""
    return cache_directory() / f"{Path(lock).stem}-{sha256(LOCKS / lock)[:12]}"


def _install(lock: Path, final: Path, *, what: str, python: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f"{final.name}.") as scratch:
        target = Path(scratch, "unpacked")
        done = _run(_command(_installer(what), lock, target, python))
        if done.returncode != 0:
            last = [line for line in done.stderr.splitlines() if line.strip()][-6:]
            raise EnvironmentFailure(
                f"{what} could not be fetched; the installer's last words:\n"
                + "\n".join(f"    {line}" for line in last),
                remedy="see to it that the package index can be reached (proxy settings are taken "
                "from the environment and from pip's or uv's configuration), then start again",
            )
        target.rename(final)


def _installer(what: str) -> list[str]:
    """Return the command of an installer with pip's options.

    An environment made by uv has no pip of its own."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if uv is not None and _run([uv, "--version"]).returncode == 0:
        return [uv, "pip"]
    private = cache_directory() / f"pip-{sys.version_info[0]}.{sys.version_info[1]}"
    python = private / "bin" / "python"
    if _run([str(python), "-m", "pip", "--version"]).returncode != 0:
        made = _run([sys.executable, "-m", "venv", "--clear", str(private)])
        if made.returncode != 0:
            raise EnvironmentFailure(
                f"{what} is needed, and neither pip nor uv is there to fetch it",
                remedy="install uv or pip (on Debian and Ubuntu: python3-venv), or what is missing",
            )
    return [str(python), "-m", "pip"]


def _command(installer: list[str], lock: Path, target: Path, python: str | None) -> list[str]:
    command = [*installer, "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--target", str(target), "-r", str(lock)]
    if python is not None:
        command += ["--python-version", python]
        # The only option that differs between the two.
        if installer[-2:] == ["-m", "pip"]:
            command += ["--platform", "manylinux2014_x86_64"]
        else:
            command += ["--python-platform", "x86_64-manylinux2014"]
    return command


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 127, stdout="", stderr=str(error))
