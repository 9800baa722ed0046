"""What a machine lacks is sent by content: code, packages, Java, jars, and Python itself.

Each is a directory named after the hash of what is in it, below the file's ``directory``. It gets
its name once it is whole, so a second run finds it and sends nothing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from harness.cache import cache_directory
from harness.cluster.machines.ssh import Connection
from harness.cluster.owned import Programs
from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure
from harness.text import Notify, format_bytes, format_duration

CODE = ("harness", "workloads", "datasets", "experiments")
PACKAGES = (
    "confluent-kafka", "kafka-python", "msgspec", "numpy", "pandas", "protobuf", "psutil",
    "pyarrow", "pyspark", "pyyaml", "redis", "scipy",
)  # fmt: skip
"""What nodes import; pages, notebooks and figures stay here."""
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|site-packages|tests?|idlelib|ensurepip|tkinter|config-3[^/]*)/|/_tkinter"
)
_LEFT_OUT_OF_PACKAGES = re.compile(r"\.\.|(^|/)(__pycache__|tests|include)/|\.pyi$|\.a$")
_LEFT_OUT_OF_JAVA = re.compile(r"^(jmods|include|man|demo|legal)/|src\.zip$")
_REAL = "bin/java.real"
_BLOCK = tarfile.BLOCKSIZE
_CHUNK_BYTES = 1 << 18
_OF_LIBC = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv))\.so")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A directory on every machine."""

    name: str
    key: str
    files: Callable[[], Iterable[tuple[Path, str]]] = field(repr=False)
    """The files, each with its path in the bundle."""

    @property
    def title(self) -> str:
        """The name of its directory."""
        return f"{self.name}-{self.key}"


@cache
def code() -> Bundle:
    """Return this checkout's code."""
    files = [
        (path, str(path.relative_to(REPOSITORY)))
        for package in CODE
        for path in sorted((REPOSITORY / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    digest = sha256()
    for path, name in files:
        digest.update(f"{name}\0".encode() + sha256(path.read_bytes()).digest())
    return Bundle(name="code", key=digest.hexdigest()[:16], files=lambda: files)


@cache
def packages() -> Bundle:
    """Return the packages that nodes import, with those that they need."""
    chosen: dict[str, metadata.Distribution] = {}
    queue = [name for name in PACKAGES if _is_there(name)]
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in chosen:
            continue
        chosen[name] = metadata.distribution(name)
        for needed in chosen[name].requires or ():
            if "extra ==" not in needed:
                word = re.match(r"[A-Za-z0-9._-]+", needed)
                if word is not None and _is_there(word[0]):
                    queue.append(word[0])
    digest = sha256()
    for name, found in sorted(chosen.items()):
        digest.update(f"{name} {found.version} {found.read_text('RECORD')}".encode())

    def files() -> Iterator[tuple[Path, str]]:
        for found in chosen.values():
            for path in found.files or ():
                name = str(path)
                if not _LEFT_OUT_OF_PACKAGES.search(name):
                    yield Path(str(path.locate())), name

    return Bundle(name="packages", key=digest.hexdigest()[:16], files=files)


def _is_there(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:  # of other systems, or of an older environment
        return False
    return True


@cache
def python() -> Bundle:
    """Return the interpreter with its standard library and the shared libraries that it needs."""
    executable = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    files = [(executable, "bin/python")]
    files += [
        (path, f"lib/{version}/{path.relative_to(library)}")
        for path in sorted(library.rglob("*"))
        if path.is_file() and not _LEFT_OUT.search(str(path.relative_to(library)))
    ]
    modules = [path for path, name in files if name.endswith(".so")]
    files += [(path, f"lib/{path.name}") for path in _needed([executable, *modules])]
    return _listed("python", files, sys.version)


def _needed(binaries: list[Path]) -> list[Path]:
    """Return the shared libraries of binaries, without those of libc."""
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    found = set(re.findall(r"=> (/\S+)", done.stdout))
    return [Path(path) for path in sorted(found) if not _OF_LIBC.match(Path(path).name)]


def java(programs: Programs) -> Bundle:
    """Return the Java runtime; a launcher of our own (`harness.environment.java`) finds its own."""
    runtime = (programs.java_home / "lib").resolve().parent
    files = [one for one in _files(runtime) if not _LEFT_OUT_OF_JAVA.search(one[1])]
    launcher = (runtime / "bin" / "java").resolve()
    if programs.java.read_bytes()[:2] == b"#!":
        files = [(path, _REAL if name == "bin/java" else name) for path, name in files]
        text = programs.java.read_text().replace(f"exec {launcher}", f'exec "${{0%/*}}/../{_REAL}"')
        written = cache_directory() / f"java-launcher-{sha256(text.encode()).hexdigest()[:12]}"
        written.write_text(text)
        written.chmod(0o700)
        files.append((written, "bin/java"))
    return _listed("jre", files)


def _files(root: Path) -> list[tuple[Path, str]]:
    return [
        (Path(place) / file, str((Path(place) / file).relative_to(root)))
        for place, _, names in os.walk(root, followlinks=True)
        for file in sorted(names)
        if (Path(place) / file).exists()
    ]


def cached(path: Path) -> tuple[Path, Bundle] | None:
    """Return the part of the user's cache that a path is in, with its bundle; None elsewhere."""
    root = cache_directory()
    if not path.is_relative_to(root) or path == root:
        return None
    first, *rest = path.relative_to(root).parts
    part = root / first / rest[0] if first == "jars" and rest else root / first
    if not part.is_dir():
        return None
    # It never changes once it is there.
    return part, _listed(part.name.rpartition("-")[0] or part.name, _files(part))


def _listed(name: str, files: list[tuple[Path, str]], more: str = "") -> Bundle:
    """Return a bundle whose key changes with names and sizes of its files, and with ``more``."""
    digest = sha256(more.encode())
    for path, inside in sorted(files, key=lambda file: file[1]):
        digest.update(f"{inside}\0{path.stat().st_size}\n".encode())
    return Bundle(name=name, key=digest.hexdigest()[:16], files=lambda: files)


def archive(files: Iterable[tuple[Path, str]]) -> Iterator[bytes]:
    """Yield a tar archive of files, links followed."""
    for path, name in files:
        info = tarfile.TarInfo(name)
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            info.size, info.mtime = status.st_size, int(status.st_mtime)
            info.mode = 0o755 if status.st_mode & 0o100 else 0o644
            yield info.tobuf(tarfile.GNU_FORMAT)
            left = info.size
            while left:
                data = file.read(min(left, _CHUNK_BYTES))
                if not data:
                    raise EnvironmentFailure(
                        f"{path} has become shorter while it was sent",
                        remedy="let nothing change it, and run the command again",
                    )
                left -= len(data)
                yield data
            yield b"\0" * (-info.size % _BLOCK)
    yield b"\0" * (2 * _BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine as it was found, before anything was sent."""

    directory: str
    """The file's ``directory``, absolute."""
    kernel: str
    libc: str
    python: str | None
    """A Python like ours that is there; None without one."""
    free_bytes: int
    has: frozenset[str]
    """The bundles that are there."""


_CHECK = (
    "import sys, ssl, ctypes, zlib, bz2, lzma, sqlite3, hashlib, socket, select; "
    f"print({sys.version_info[:3]} <= sys.version_info < {(3, sys.version_info[1] + 1)})"
)
"""Prints True in a Python of the same minor version that is not older: an older one may need
packages that ours does without."""


def look(connection: Connection, directory: str) -> Host:
    """Find what a machine has. Raises `EnvironmentFailure` where it cannot be used."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    place = f"$HOME/{directory[2:]}" if directory.startswith("~/") else directory
    done = connection.run(
        f"""set -u
D="{place}"
mkdir -p "$D" && chmod 700 "$D" || exit 3
echo "directory $D"
echo "kernel $(uname -sm)"
echo "libc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
for p in python{version} python3; do
  if [ "$($p -c {shlex.quote(_CHECK)} 2>/dev/null)" = True ]; then
    echo "python $(command -v $p)"; break
  fi
done
echo "free $(df -Pk "$D" | awk 'NR == 2 {{print $4}}')"
command -v tar >/dev/null && echo "tar yes"
for b in "$D"/*-*; do [ -d "$b" ] && echo "has $(basename "$b")"; done
exit 0
"""
    )
    if done.returncode != 0:
        raise EnvironmentFailure(
            f"{connection.ssh}: the directory {directory} cannot be used: {done.stderr.strip()}",
            remedy="give another `directory` in the file of machines",
        )
    lines = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    values = dict(reversed(lines))
    if "tar" not in values:
        raise EnvironmentFailure(
            f"{connection.ssh} has no program tar", remedy="install its package tar"
        )
    return Host(
        directory=values["directory"],
        kernel=values.get("kernel", ""),
        libc=values.get("libc", "").strip(),
        python=values.get("python") or None,
        free_bytes=int(values.get("free") or 0) * 1024,
        has=frozenset(value for key, value in lines if key == "has"),
    )


def demand_like(ssh: str, host: Host) -> None:
    """Raise `EnvironmentFailure` for a machine on which our binaries do not run."""
    own = os.uname()
    kernel = f"{own.sysname} {own.machine}"
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "another libc"
    if host.kernel != kernel or not _at_least(host.libc, libc, strict=host.python is None):
        raise EnvironmentFailure(
            f"{ssh} is {host.kernel} with {host.libc or 'no glibc'}, and this machine {kernel} "
            f"with {libc}",
            remedy="use machines of one kind: what is sent are this machine's binaries"
            if host.kernel != kernel
            else f"install Python {sys.version_info[0]}.{sys.version_info[1]} there: the one of "
            "this machine needs its newer glibc",
        )


def _at_least(there: str, here: str, *, strict: bool) -> bool:
    """Return True if binaries run: wheels need glibc 2.28, our interpreter (``strict``) ours."""
    found, own = (re.fullmatch(r"glibc (\d+)\.(\d+)", text) for text in (there, here))
    if found is None or own is None:
        return False
    least = (int(own[1]), int(own[2])) if strict else (2, 28)
    return (int(found[1]), int(found[2])) >= least


def send(connection: Connection, host: Host, bundle: Bundle, report: Notify) -> int:
    """Send a bundle if the machine lacks it; return the number of bytes.

    Raises `EnvironmentFailure` with the machine's own words."""
    if bundle.title in host.has:
        return 0
    began, total = time.monotonic(), 0
    target = f"{host.directory}/{bundle.title}"
    draft = f"{host.directory}/.draft-{uuid4().hex}"

    def pieces() -> Iterator[bytes]:
        nonlocal total
        for piece in archive(bundle.files()):
            total += len(piece)
            yield piece

    paths = [shlex.quote(path) for path in (draft, target)]
    done = connection.run(
        f"mkdir {paths[0]} && tar -xf - -C {paths[0]} && "
        f"{{ mv -T {paths[0]} {paths[1]} 2>/dev/null || [ -d {paths[1]} ]; }} "
        f"|| {{ rm -rf {paths[0]}; exit 4; }}; rm -rf {paths[0]}",
        pieces(),
        within_s=None,
    )
    if done.returncode != 0:
        full = "No space left" in done.stderr or "quota" in done.stderr.lower()
        raise EnvironmentFailure(
            f"{connection.ssh}: {bundle.title} could not be written to {host.directory}: "
            f"{done.stderr.strip()[-500:] or 'the machine gave no reason'}",
            remedy="free some disk space there, or give another `directory` in the file of machines"
            if full
            else "see whether the directory can be written there",
        )
    took_s = time.monotonic() - began
    report(
        f"{connection.ssh}: sent {bundle.name}, {format_bytes(total)} in {format_duration(took_s)}"
    )
    return total
