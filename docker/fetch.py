"""Fetch the image's parts other than Python packages, and link them to fixed places in /opt."""

from __future__ import annotations

from pathlib import Path

import pyspark

from harness.environment.jars import ensure_jars
from harness.environment.java import find_java
from harness.environment.redis_server import find_redis

OPT = Path("/opt")


def main() -> None:
    (OPT / "bin").mkdir()
    for link, target in {
        OPT / "java": find_java().home,
        OPT / "kafka": ensure_jars().broker,
        OPT / "spark": Path(pyspark.__file__).parent,
        OPT / "bin" / "redis-server": find_redis(),
    }.items():
        link.symlink_to(target)
    # The user of the containers must be able to read all of it.
    for path in [OPT / "cache", *(OPT / "cache").rglob("*")]:
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))


if __name__ == "__main__":
    main()
