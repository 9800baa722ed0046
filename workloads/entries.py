"""Finds the workloads: every module of this package that defines ``ENTRY``.

A workload in the tree is one file with both of its forms, the query and the tasks, and an
`Entry` at its end; nothing else lists it. A user's own file needs no entry
(`workloads.own.load_workload_file`)."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from harness.errors import UsageError
from harness.text import did_you_mean
from workloads.base import Entry


@functools.cache
def all_workloads() -> Mapping[str, Entry]:
    """Every workload of the tree by its name."""
    import workloads

    found: dict[str, Entry] = {}
    for module in pkgutil.iter_modules(workloads.__path__, "workloads."):
        entry = getattr(importlib.import_module(module.name), "ENTRY", None)
        if module.ispkg or entry is None:
            continue
        assert isinstance(entry, Entry), f"{module.name}.ENTRY is a {type(entry).__name__}"
        assert entry.name not in found, f"two workloads are called {entry.name}"
        found[entry.name] = entry
    return dict(sorted(found.items()))


def workload_entry(name: str) -> Entry:
    """Return the workload called ``name``; raise `UsageError` if there is none."""
    known = all_workloads()
    if name not in known:
        raise UsageError(f"no workload is called {name!r}", remedy=did_you_mean(name, known))
    return known[name]
