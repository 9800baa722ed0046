"""What a copy can do, and what makes it able to do more or less: a table of transitions.

::

    LOADING ──CheckpointLoaded──> READY ──CheckpointRefused, OutputRefused──> FENCED
       ^                           │ │
       └──────ReplayRefused────────┘ └──BatchFailed──> FAILED
"""

from __future__ import annotations

from enum import StrEnum

from harness.protocol.inputs import (
    BatchFailed,
    CheckpointLoaded,
    CheckpointRefused,
    CopyOrdered,
    OutputRefused,
    ReplayRefused,
)


class Phase(StrEnum):
    """What a copy can do."""

    LOADING = "loading"
    """It waits for its state."""
    READY = "ready"
    FENCED = "fenced"
    """A newer primary exists: it does nothing any more."""
    FAILED = "failed"
    """Its operator has raised: it does nothing any more, and reports that until it is retired."""


LOADING, READY, FENCED, FAILED = Phase
"""For what is asked with every input: to look a member up in its class costs two calls."""


class Mode(StrEnum):
    """Borealis' states of a node (dpc, Fig. 2)."""

    STABLE = "stable"
    FAILURE = "up-failure"
    STABILIZATION = "stabilization"


TRANSITIONS: dict[tuple[Phase, type], Phase] = {
    (Phase.LOADING, CopyOrdered): Phase.READY,  # one that starts empty loads nothing
    (Phase.LOADING, CheckpointLoaded): Phase.READY,
    (Phase.LOADING, CheckpointRefused): Phase.FENCED,
    (Phase.LOADING, OutputRefused): Phase.FENCED,
    (Phase.READY, ReplayRefused): Phase.LOADING,
    (Phase.READY, BatchFailed): Phase.FAILED,
    (Phase.LOADING, BatchFailed): Phase.FAILED,
    (Phase.READY, CheckpointRefused): Phase.FENCED,
    (Phase.READY, OutputRefused): Phase.FENCED,
}
"""Where an input may lead from a phase; nothing leads out of FENCED and FAILED."""
