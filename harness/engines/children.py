"""Resource usage of an engine's own processes.

Tests: ``tests/engines/test_contract.py``."""

from __future__ import annotations

from collections.abc import Iterable

from harness.child import Child
from harness.cluster.base import Usage


def used_by(children: Iterable[Child], method: str) -> Usage:
    """Return the usage of these processes together; None for a value that one of them lacks."""
    each = [child.used() for child in children]
    known = [used for used in each if used is not None]
    whole = len(known) == len(each)
    return Usage(
        cpu_s=sum(cpu_s for cpu_s, _ in known) if whole else None,
        resident_bytes=sum(resident for _, resident in known) if whole else None,
        received_bytes=None,
        sent_bytes=None,
        method=method,
    )
