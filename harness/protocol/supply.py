"""What others ask a copy for: batches once more, and how far it has got."""

from __future__ import annotations

from harness.protocol.computation import Computation
from harness.protocol.inlet import Inlet, Needs
from harness.protocol.inputs import ReplayRequested
from harness.protocol.outlet import Outlet
from harness.protocol.phases import Phase
from harness.protocol.speaker import Speaker


class Supply:
    """Answers downstream tasks, and tells a replica of its primary's progress."""

    __slots__ = ("_anywhere", "_computation", "_inlet", "_local", "_outlet", "_pending", "_speaker")

    def __init__(
        self,
        speaker: Speaker,
        inlet: Inlet,
        outlet: Outlet,
        computation: Computation,
        *,
        anywhere: bool,
        local: bool,
    ) -> None:
        """``anywhere``: it is a source without a state, which can begin at any batch; ``local``:
        tasks recover one by one, so there may be replicas."""
        self._speaker, self._inlet, self._outlet = speaker, inlet, outlet
        self._computation = computation
        self._anywhere, self._local = anywhere, local
        self._pending: dict[int, ReplayRequested] = {}
        """What was asked for while the copy was loading, by who asked."""

    def requested(self, item: ReplayRequested, phase: Phase) -> None:
        """A downstream copy lacks batches. While this one loads it cannot say what it has; then
        the request waits until it takes office."""
        self._outlet.acknowledged(item.downstream, item.acknowledged)
        if phase is Phase.LOADING:
            self._pending[item.downstream] = item
        if self._speaker.term is None or phase is not Phase.READY:
            return
        if self._outlet.has(item.from_batch):
            self._outlet.replay(item, self._computation.uncorrected)
        else:
            self._cannot_replay(item)

    def answer_pending(self) -> None:
        """It is a primary and has its state."""
        pending, self._pending = self._pending, {}
        for request in pending.values():
            self.requested(request, Phase.READY)

    def _cannot_replay(self, item: ReplayRequested) -> None:
        """Asked for what is trimmed: a source without a state reads it again, others say so."""
        if not self._anywhere or item.reloads:
            self._outlet.refuse(item)
        elif item.from_batch < self._computation.position:
            self.rewind(item.from_batch)

    def rewind(self, batch: int) -> None:
        """Go back, as nothing is remembered that would be wrong there."""
        assert self._anywhere, "a state belongs to one position"
        self._computation.rewind(batch)
        self._outlet.restart(batch)
        self._inlet.request(0, Needs(batch, None, 0))

    def report_progress(self) -> None:
        """To a replica, if there may be one."""
        if self._local:
            self._outlet.report_progress(self._computation.position)
