"""Numbers of examples and seeds: fewer after every change, all with ``--all``.

``./faultline test`` chooses the profile `BRIEF` of Hypothesis (tests/conftest.py); pytest by itself
and ``./faultline test --all`` do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

from harness.experiment import Experiment
from harness.results.record import Profile
from harness.running.discovery import estimate_s

BRIEF = "brief"
BRIEFLY = 4
"""The profile `BRIEF` divides the numbers of examples and seeds by this."""


def amount(whole: int) -> int:
    """Return the number of examples or seeds, at least two: a single one compares nothing.

    ``whole`` is their number in all other profiles."""
    brief = settings.get_current_profile_name() == BRIEF
    return max(2, whole // BRIEFLY) if brief else whole


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
