"""The one list of schemes, and the `Scheme` of each for a topology.

Engines, contenders, figures and advice take names, labels and summaries from `SCHEMES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from harness.errors import UsageError
from harness.protocol.scheme import Closing, Recovery, Scheme, Tentative
from harness.protocol.wiring import Wiring
from harness.text import did_you_mean


class Replicas(StrEnum):
    """The tasks that have an active replica."""

    NONE = "none"
    PLANNED = "planned"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Family:
    """The common properties of all schemes of one name."""

    label: str
    """The name in tables and texts."""
    summary: str
    """One line, for ``--help`` and the documents."""
    recovery: Recovery
    replicas: Replicas = Replicas.NONE
    closing: Closing | None = None
    """The part that closes batches; None: nothing is tentative."""


SCHEMES: Mapping[str, Family] = MappingProxyType(
    {
        "replay": Family(
            "source replay", "source replay: no checkpoint, ancestors recompute", Recovery.REPLAY
        ),
        "checkpoint": Family(
            "checkpoint", "each task from its own latest checkpoint", Recovery.LOCAL
        ),
        "global": Family(
            "global checkpoint", "all tasks from the last coordinated checkpoint", Recovery.GLOBAL
        ),
        "active": Family(
            "active replication",
            "an active replica of every task",
            Recovery.LOCAL,
            Replicas.ALL,
            Closing.COORDINATOR,
        ),
        "rppg": Family(
            "RPPG",
            "active replicas where the plan says, else checkpoints",
            Recovery.LOCAL,
            Replicas.PLANNED,
        ),
        "ppa": Family(
            "PPA",
            "active replicas of the plan; tentative output goes on without the rest",
            Recovery.LOCAL,
            Replicas.PLANNED,
            Closing.COORDINATOR,
        ),
        "dpc": Family(
            "Borealis",
            "replicas of the plan; each task goes on alone after a bound",
            Recovery.LOCAL,
            Replicas.PLANNED,
            Closing.TASK,
        ),
    }
)


def family(name: str) -> Family:
    """Return the family called ``name``; raise `UsageError` if there is none."""
    if name not in SCHEMES:
        raise UsageError(f"there is no scheme {name!r}", remedy=did_you_mean(name, SCHEMES))
    return SCHEMES[name]


def make_scheme(
    name: str,
    wiring: Wiring,
    *,
    checkpoint_every: int = 5,
    plan: tuple[int, ...] = (),
    tentative: Tentative | None = None,
    **intervals: int | tuple[int, ...],
) -> Scheme:
    """Make the scheme called ``name`` for ``wiring``.

    ``checkpoint_every`` is not used by source replay; ``plan`` only by schemes with planned
    replicas. ``tentative`` gives bound and policies of a scheme with tentative output (its closing
    follows from the name); None is plain: at once, process, checkpoint/redo. ``intervals`` are
    further fields of `Scheme`: heartbeat_us, suspect_after_us, trim_every_us, ...

    Raises `UsageError` for options that the scheme has no use for, and as `Scheme` does."""
    assert checkpoint_every >= 0, f"a checkpoint every {checkpoint_every} batches"
    kind = family(name)
    if plan and kind.replicas is not Replicas.PLANNED:
        raise UsageError(
            f"{name} has replicas of {kind.replicas} tasks, and a plan of {len(plan)} was given",
            remedy="drop the plan, or choose ppa, rppg or dpc",
        )
    if tentative is not None and kind.closing is None:
        raise UsageError(
            f"{name} gives no tentative output", remedy="drop its policies, or choose ppa or dpc"
        )
    if kind.closing is not None:
        tentative = replace(tentative or Tentative(), closing=kind.closing)
    scheme = Scheme(
        name=name,
        recovery=kind.recovery,
        checkpoint_every=0 if kind.recovery is Recovery.REPLAY else checkpoint_every,
        replicated=tuple(wiring.tasks) if kind.replicas is Replicas.ALL else plan,
        tentative=tentative,
        **intervals,  # type: ignore[arg-type]  # by name, and `Scheme` refuses other names
    )
    scheme.check(wiring)
    return scheme
