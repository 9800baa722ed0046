"""An event loop in virtual time with many processes, each of which can die, freeze or compute.

Time stands still while callbacks run and jumps to the next timer when there are none. The process
of a callback is in its context, which asyncio hands on from every callback to those that it
schedules: so the callbacks of a dead process are dropped, and those of a frozen one wait.

A process has strands: its event loop, and its threads. A strand that computes (`VirtualLoop.burn`)
runs nothing else meanwhile. A thread that blocks is a real one here, and runs only while the loop
waits for it (`Thread`), so a run is a function of its seed.

Tests: ``tests/engines/tasks/virtual/test_loop.py``."""

from __future__ import annotations

import asyncio
import heapq
import random
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

from harness.engines.tasks import pacing
from harness.simulator.checkers import InvariantBroken

MOST_CALLS = 3_000_000
"""Callbacks after which a run counts as going in circles."""
EPOCH_S = 1_800_000_000
"""The wall clock at the begin of a run."""
SWITCH_S = 0.000_05
"""Time until a thread's result is seen in the loop."""


class Process:
    """One process: what it runs is dropped when it is dead, and waits while it is frozen."""

    def __init__(self, loop: VirtualLoop, name: str, host: str) -> None:
        """``host`` is its machine's address."""
        self.loop, self.name, self.host = loop, name, host
        self.dead = self.frozen = False
        self.no_descriptors = False
        """True while it can open nothing."""
        self.bad_threads = False
        """True while its readers raise."""
        self.slow_us = 0
        """What each batch of an operator costs it."""
        self.handler: Callable[..., object] | None = None
        self.kept: list[Any] = []
        """Tasks and threads: the finalizers of a dead process must not run."""
        self.strands: list[Strand] = []
        self.main = Strand(self)
        self.workers: dict[int, Strand] = {}

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run a coroutine as its main task."""
        return self.main.context().run(lambda: self.loop.create_task(work()))

    def kill(self) -> None:
        """End it at once; what holds its connections notices separately."""
        self.dead = True
        for strand in self.strands:
            strand.deferred.clear()

    def dispose(self) -> None:
        """Let go of what a dead process was doing, before its loop is closed."""
        context = self.main.context()
        for kept in self.kept:  # which grows meanwhile
            if isinstance(kept, Thread):
                kept.end()
            elif isinstance(kept, asyncio.Task) and not kept.done():
                with suppress(Exception):  # whatever its finalizers run into
                    context.run(kept.get_coro().close)

    def freeze(self, frozen: bool) -> None:
        """Stop it, or let it go on as if no time had passed."""
        self.frozen = frozen
        if not frozen:
            for strand in self.strands:
                strand.release()


class Strand:
    """Something in a process that does one thing after the other."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.busy_until = 0.0
        self.deferred: deque[asyncio.Handle] = deque()
        process.strands.append(self)

    def context(self) -> Context:
        """Return a new context for callbacks of this strand."""
        context = Context()
        context.run(STRAND.set, self)
        return context

    def admits(self, handle: asyncio.Handle) -> bool:
        """Return True if a callback runs now; otherwise it is kept for later, or dropped."""
        process = self.process
        if process.dead:
            return False
        if process.frozen or self.busy_until > process.loop.now or self.deferred:
            self.deferred.append(handle)
            return False
        return True

    def release(self) -> None:
        """Let go on what has waited."""
        if self.process.dead or self.process.frozen or self.busy_until > self.process.loop.now:
            return
        ready, self.deferred = self.deferred, deque()
        self.process.loop.add_ready(ready)


STRAND: ContextVar[Strand | None] = ContextVar("strand", default=None)


def current() -> Process | None:
    """Return the process that runs now; None for what is outside of all."""
    strand = STRAND.get()
    return strand.process if strand is not None else None


def running() -> Process:
    """Return the process that runs now, which must be one."""
    process = current()
    assert process is not None, "only a process computes, connects and has threads and clients"
    return process


class _Handle(asyncio.Handle):
    """A callback that its strand runs, keeps for later or drops."""

    def _run(self) -> None:
        strand = self._context.get(STRAND)  # type: ignore[attr-defined]
        if strand is None or strand.admits(self):
            super()._run()


class _Timer(_Handle, asyncio.TimerHandle):
    """A timer of that strand."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. Its connections are in `streams.VirtualStreams`."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.now = 0.0
        self.calls = 0
        self.dice = dice
        self.ahead_us: Counter[str] = Counter()
        """Host to how far its wall clock is ahead."""
        self.died: list[tuple[Process, BaseException | None]] = []
        """Errors that no handler of a process took."""
        self.watch: Callable[[], None] = lambda: None
        """Called after every callback; what it raises ends the run."""
        self._queue: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0

    def time(self) -> float:
        """Return the time as the running strand sees it: what it computes takes time."""
        strand = STRAND.get()
        return self.now if strand is None else max(self.now, strand.busy_until)

    def monotonic_us(self) -> int:
        """Return the monotonic clock, which is the same for all."""
        return round(self.time() * 1e6)

    def wall_us(self) -> int:
        """Return the wall clock of the running process's machine."""
        process = current()
        ahead_us = self.ahead_us[process.host] if process is not None else 0
        return round((EPOCH_S + self.time()) * 1e6) + ahead_us

    def burn(self, seconds: float) -> None:
        """Let the running strand compute for a while."""
        strand = STRAND.get()
        assert strand is not None, "only a process computes"
        strand.busy_until = self.time() + seconds
        self.outside(strand.busy_until, strand.release)

    def outside(self, when: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something at an instant, in no process."""
        self.call_at(when, callback, *arguments, context=Context())

    def add_ready(self, handles: Sequence[asyncio.Handle] | deque[asyncio.Handle]) -> None:
        """Let callbacks run that have waited."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    # -- as an event loop ----------------------------------------------------------------------

    def _call_soon(self, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        timer = _Timer(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave it in the queue, which passes over it."""

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call something in the loop of the process whose thread runs now."""
        strand = STRAND.get()
        if context is None and strand is not None:
            context = strand.process.main.context()
        return self.call_soon(callback, *args, context=context)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        """As asyncio's."""
        task = super().create_task(coro, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a kill leaves many
        process = current()
        if process is not None:
            process.kept.append(task)
        return task

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]
        if not ready:
            self._advance()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            self.calls += 1
            handle._run()
            self.watch()
        if self.calls > MOST_CALLS:
            raise InvariantBroken("endless", f"{self.calls} callbacks by {self.now:.3f} s")

    def _advance(self) -> None:
        """Go to the next instant at which something is due."""
        queue, ready = self._queue, self._ready  # type: ignore[attr-defined]
        while queue and queue[0][2]._cancelled:
            heapq.heappop(queue)
        if not queue:
            raise InvariantBroken("endless", f"nothing is left to wait for at {self.now:.3f} s")
        self.now = max(self.now, queue[0][0])
        while queue and queue[0][0] <= self.now:
            ready.append(heapq.heappop(queue)[2])

    def set_exception_handler(self, handler: Any) -> None:
        """As asyncio's."""
        process = current()
        if process is not None:
            process.handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As asyncio's."""
        process = current()
        if process is None or process.dead:
            return
        if process.handler is not None:
            process.handler(self, context)
        else:
            self.died.append((process, context.get("exception")))

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        """Run a function in the executor's strand, one after the other."""
        process = running()
        worker = process.workers.get(id(executor))
        if worker is None:
            worker = process.workers[id(executor)] = Strand(process)
            process.kept.append(executor)
        future = self.create_future()
        home = copy_context()

        def work() -> None:
            if future.cancelled() or getattr(executor, "_shutdown", False):
                return
            try:
                answer, error = func(*args), None
            except Exception as raised:
                answer, error = None, raised
            self.call_at(self.time() + SWITCH_S, settle, answer, error, context=home)

        def settle(answer: Any, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)

        self.call_soon(work, context=worker.context())
        return future

    def _write_to_self(self) -> None:
        """Wake nobody: there is one thread at a time."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there is no selector."""


class Ended(BaseException):
    """Raised in a thread whose process has ended."""


class Thread:
    """A real thread that runs only while the loop waits for it."""

    def __init__(self, loop: VirtualLoop, run: Callable[[], None], name: str) -> None:
        process = running()
        self._loop, self._run = loop, run
        self.strand = Strand(process)
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._ended = self._finished = False
        process.kept.append(self)
        self._thread = threading.Thread(
            target=self.strand.context().run, args=(self._main,), name=name, daemon=True
        )
        self._thread.start()
        self._waits_for = 1
        self.wake(1)

    def wake(self, pause: int) -> None:
        """Let it go on from a pause, unless it did already."""
        self._loop.call_soon(self._switch, pause, context=self.strand.context())

    def wake_at(self, when: float, pause: int) -> None:
        """Let it go on at an instant."""
        self._loop.call_at(when, self._switch, pause, context=self.strand.context())

    @property
    def pause(self) -> int:
        """The number of the pause that the next `block` is."""
        return self._waits_for + 1

    def block(self) -> None:
        """In the thread: wait for `wake`."""
        self._waits_for += 1
        self._back.release()
        self._go.acquire()
        if self._ended:
            raise Ended

    def end(self) -> None:
        """Let the thread end."""
        if not self._finished:
            self._ended = True
            self._go.release()
            self._thread.join()

    def _switch(self, pause: int) -> None:
        if pause == self._waits_for and not self._finished:
            self._go.release()
            self._back.acquire()

    def _main(self) -> None:
        THREADS.value = self
        self._go.acquire()
        try:
            if not self._ended:
                self._run()
        except Ended:
            pass
        finally:
            self._finished = True
            self._back.release()


THREADS = threading.local()


def running_thread() -> Thread:
    """Return the thread that runs now."""
    thread: Thread = THREADS.value
    return thread


class Gate:
    """A `threading.Event` for such threads."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[tuple[Thread, int]] = []

    def set(self) -> None:
        """Let those go on that wait."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for thread, pause in waiting:
            thread.wake(pause)

    def clear(self) -> None:
        """Let who comes now wait."""
        self._set = False

    def wait(self) -> None:
        """In a thread: wait until it is set."""
        while not self._set:
            thread = running_thread()
            self._waiting.append((thread, thread.pause))
            thread.block()


@contextmanager
def virtual_time(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Let the engine's clocks be the loop's, and all its random numbers come from the seed."""
    dice = random.Random(seed)
    names: Mapping[tuple[Any, str], Callable[..., Any]] = {
        (secrets, "token_bytes"): lambda size=32: dice.randbytes(size),
        (secrets, "token_hex"): lambda size=32: dice.randbytes(size).hex(),
        (secrets, "randbits"): dice.getrandbits,
        (time, "time"): lambda: loop.wall_us() / 1e6,
        (time, "time_ns"): lambda: loop.wall_us() * 1000,
    }
    before = {(owner, name): getattr(owner, name) for owner, name in names}
    state = random.getstate()
    random.seed(seed)
    for (owner, name), function in names.items():
        setattr(owner, name, function)
    try:
        with pacing.clock(loop.monotonic_us):
            yield
    finally:
        random.setstate(state)
        for (owner, name), function in before.items():
            setattr(owner, name, function)


def pay() -> None:
    """Let the process that runs compute for as long as a batch costs it."""
    process = current()
    if process is not None and process.slow_us:
        process.loop.burn(process.slow_us / 1e6)
