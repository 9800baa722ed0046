"""How much of a property or a search is looked at: less after every change, all with ``--all``.

``./faultline test`` chooses the profile `BRIEF` of Hypothesis (tests/conftest.py); pytest by itself
and ``./faultline test --all`` do not.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

BRIEF = "brief"
BRIEFLY = 4
"""How many times fewer examples and seeds the profile has."""


def amount(whole: int) -> int:
    """So many examples or seeds of ``whole``, at least two: a single one compares nothing."""
    brief = settings.get_current_profile_name() == BRIEF
    return max(2, whole // BRIEFLY) if brief else whole


def deep(*values: Any) -> list[Any]:
    """Values of a parameter that are tried with ``--all`` alone."""
    return [pytest.param(value, marks=pytest.mark.deep) for value in values]
