"""The parameters of Flink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import UsageError

AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkParameters:
    """The factors, in Flink's own words; the defaults are its own. Plain values only."""

    checkpoint_interval_s: float = 10.0
    """``execution.checkpointing.interval``. Flink's own default is no checkpoint at all, with which
    a failure ends the job; 10 s is a choice."""
    guarantee: str = AT_LEAST_ONCE
    """``sink.delivery-guarantee`` of the Kafka sink. State is exactly once in either case."""
    unaligned: bool = False
    """``execution.checkpointing.unaligned.enabled``."""
    changelog: bool = False
    """``state.changelog.enabled``: state changes are written continuously, so that a checkpoint has
    little left to write."""
    local_recovery: bool = False
    """``execution.checkpointing.local-backup.enabled``, ``execution.state-recovery.from-local``: a
    living TaskManager restores from its own disk."""
    heartbeat_interval_s: float | None = None
    """None: 10 s."""
    heartbeat_timeout_s: float | None = None
    """None: 50 s. A TaskManager that cannot be reached is lost after two heartbeats anyway
    (``heartbeat.rpc-failure-threshold``)."""
    slots_per_node: int = 1
    """``taskmanager.numberOfTaskSlots``. What exceeds the parallelism stands by: without a free
    slot a job waits for the restarted node."""
    parallelism: int | None = None
    """``parallelism.default``; None: one per node."""
    spread: bool = False
    """``taskmanager.load-balance.mode: slots``: tasks go to all nodes, also when slots are free."""
    restart_delay_s: float | None = None
    """Delay of the first restart; None: 1 s, growing by half with each further one."""
    restart_delay_again_s: float | None = None
    """Time of undisturbed work after which the delay is the first one again; None: an hour. Kills
    that stand for rare ones come sooner than that."""
    records_per_s: float | None = None
    """Declared speed of each source task, kept by sleeping; None: as fast as the machine is."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Any further settings of Flink; it judges them."""

    def __post_init__(self) -> None:
        if self.guarantee not in (AT_LEAST_ONCE, EXACTLY_ONCE):
            raise UsageError(
                f"Flink's Kafka sink has no guarantee {self.guarantee!r}",
                remedy=f"use {AT_LEAST_ONCE} or {EXACTLY_ONCE}",
            )
        for name in ("checkpoint_interval_s", "slots_per_node", "records_per_s"):
            if (given := getattr(self, name)) is not None and given <= 0:
                raise UsageError(
                    f"Flink cannot have {name}={given}",
                    remedy="give a number above zero",
                )

    @property
    def transactional(self) -> bool:
        """True if results are written in transactions, which a checkpoint commits."""
        return self.guarantee == EXACTLY_ONCE


TUNED = FlinkParameters(
    checkpoint_interval_s=1.0, guarantee=EXACTLY_ONCE, local_recovery=True,
    heartbeat_interval_s=1.0, heartbeat_timeout_s=6.0, slots_per_node=2, spread=True,
    restart_delay_s=0.1, restart_delay_again_s=10.0,
)  # fmt: skip
"""Its documentation's advice for recovery: standby slots, local recovery, short heartbeats, and a
first restart without much delay, each kill's as a rare one's."""
