"""One root seed; every component derives its own from it by name.

A child seed depends on the root and the names alone, so adding a component never shifts the
random numbers of another one, and two runs that use the same names get the same input."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

DEFAULT_SEED = 20160516
"""The day ICDE 2016 opened, where the PPA paper was presented."""


def derive_seed(root: int, *names: str | int) -> int:
    """Return a seed in [0, 2**63) for the component called ``names`` under ``root``."""
    text = "\x1f".join([str(root), *(f"{type(name).__name__}:{name}" for name in names)])
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def run_seed(root: int, measurement: str, repeat: int, *names: str | int) -> int:
    """Return the seed for ``names`` of a measurement's run, behind `Context.seed`."""
    return derive_seed(root, measurement, repeat, *names)


def generator(root: int, *names: str | int) -> np.random.Generator:
    """Return a random generator for the component called ``names`` under ``root`` alone."""
    import numpy as np  # commands that draw nothing do not load it

    return np.random.default_rng(derive_seed(root, *names))
