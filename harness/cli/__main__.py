"""``python -m harness.cli``."""

from __future__ import annotations

from collections.abc import Sequence

from harness.cli.main import main


def _in_warm_process(arguments: Sequence[str]) -> int | None:
    """Run a sample and nothing else where PySpark and a JVM are warm."""
    if arguments[:1] != ["try"] or "--sample-only" not in arguments:
        return None
    from harness.cli import warm

    return warm.run(arguments)


main(_in_warm_process)
