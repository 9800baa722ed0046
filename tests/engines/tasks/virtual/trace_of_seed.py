"""Everything that one run on the virtual host did, for a comparison between revisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from harness.engines.tasks.virtual.cluster import HostWorld
from harness.engines.tasks.virtual.draw import draw_host
from harness.engines.tasks.virtual.run import simulate_host


class Recorder:
    """A bystander whose calls are written down before it checks them."""

    def __init__(self, bystander: Any) -> None:
        self.bystander = bystander
        self.lines: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        check = getattr(self.bystander, name)

        def recorded(*arguments: Any, **more: Any) -> Any:
            self.lines.append(f"{name} {arguments!r} {more!r}")
            return check(*arguments, **more)

        # A copy's state is not its trace, and has no text of its own.
        return check if name == "handled" or not callable(check) else recorded


def trace(seed: int, scheme: str) -> str:
    """Return the options, the events, what the checkers saw, and the result of a seed."""
    worlds: list[tuple[HostWorld, Recorder]] = []

    def watch(world: HostWorld) -> None:
        recorder = Recorder(world.bystander)
        world.story = deque()
        world.bystander = recorder  # type: ignore[assignment]  # it passes every call on
        worlds.append((world, recorder))

    report = simulate_host(draw_host(seed, scheme=scheme), prepare=watch)
    ((world, recorder),) = worlds
    return "\n".join([repr(world.options), *world.story, *recorder.lines, repr(report)])
