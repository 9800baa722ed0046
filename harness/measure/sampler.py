"""Sampling on a thread of its own, while something else runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Sampler(ABC):
    """Takes a sample at both ends of a context, and at intervals in between.

    An error ends the sampling; leaving the context raises it, unless another one is on its way."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._problem: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @abstractmethod
    def sample(self) -> None:
        """Take one sample."""

    def __enter__(self) -> Self:
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._problem is None:
            self.sample()
        elif kind is None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every_s):
                self.sample()
        except Exception as problem:  # whatever it is, `__exit__` raises it
            self._problem = problem
