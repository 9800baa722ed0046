"""A climb: one rung after the other is tried, until it is known which of them an engine holds.

The figure brings the rungs, what an attempt is, and when a rung is held. Here is the order alone:
down from the best rung to the first one that is held, up until some in a row are not, and any
single rung between those."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Rung = TypeVar("Rung")
"""What is tried: a rate, or an interval with a rate."""
Result = TypeVar("Result")
"""What an attempt shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[Rung, Result]):
    """A rung that was tried, once or twice."""

    rung: Rung
    tries: Sequence[Result]
    held: bool
    """True if the last try held it."""

    @property
    def last(self) -> Result:
        """The try that counts."""
        return self.tries[-1]


class Climb(Generic[Rung, Result]):
    """The rungs that were tried so far."""

    def __init__(
        self,
        attempt: Callable[[Rung], Result],
        holds: Callable[[Result], bool],
        *,
        in_doubt: Callable[[Result], bool] = lambda result: False,
    ) -> None:
        """Prepare a climb; a rung whose first try leaves it ``in_doubt`` is tried once more."""
        self._attempt, self._holds, self._in_doubt = attempt, holds, in_doubt
        self.steps: list[Step[Rung, Result]] = []

    def try_rung(self, rung: Rung) -> bool:
        """Try a rung; return True if it is held."""
        tries = [self._attempt(rung)]
        if self._in_doubt(tries[0]):
            tries.append(self._attempt(rung))
        held = self._holds(tries[-1])
        self.steps.append(Step(rung=rung, tries=tries, held=held))
        return held

    def until_held(self, rungs: Iterable[Rung]) -> None:
        """Try rungs, the hardest first, until one is held."""
        any(map(self.try_rung, rungs))

    def until_missed(self, rungs: Iterable[Rung], *, in_a_row: int = 1) -> None:
        """Try rungs, the easiest first, until some ``in_a_row`` are not held."""
        missed = 0
        for rung in rungs:
            missed = 0 if self.try_rung(rung) else missed + 1
            if missed == in_a_row:
                return

    @property
    def results(self) -> list[Result]:
        """Every try of every rung, in order."""
        return [each for step in self.steps for each in step.tries]

    @property
    def held(self) -> Step[Rung, Result] | None:
        """The newest step that was held; None without one."""
        return next((step for step in reversed(self.steps) if step.held), None)

    @property
    def missed(self) -> Step[Rung, Result] | None:
        """The newest step that was not held; None without one."""
        return next((step for step in reversed(self.steps) if not step.held), None)
