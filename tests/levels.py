"""Numbers of examples and seeds: fewer after every change, all with ``--all``.

``./faultline test`` chooses the profile "brief" of Hypothesis (tests/conftest.py), with ``--all``
"half"; pytest by itself has all examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

from harness.experiment import Experiment
from harness.results.record import Profile
from harness.running.discovery import estimate_s

DIVISORS = {"brief": 4, "half": 2}
"""A profile to what divides the numbers of examples and seeds."""


def amount(whole: int) -> int:
    """Return the number of examples or seeds, at least two: a single one compares nothing.

    ``whole`` is their number in all other profiles."""
    return max(2, whole // DIVISORS.get(settings.get_current_profile_name(), 1))


SOON_S = 1.0
"""Longest duration, in the smoke profile, of an experiment that is run after every change."""


def by_cost(experiments: Iterable[Experiment], *, soon_s: float = SOON_S) -> list[Any]:
    """Make a parameter of each; mark as deep those with a smoke grid longer than ``soon_s``."""
    return [
        pytest.param(
            each,
            id=each.id,
            marks=() if estimate_s(each, Profile.SMOKE, None) < soon_s else pytest.mark.deep,
        )
        for each in experiments
    ]


def deep(*values: Any) -> list[Any]:
    """Mark values of a parameter as tried with ``--all`` alone."""
    return [pytest.param(value, marks=pytest.mark.deep) for value in values]
