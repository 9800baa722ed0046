"""The shipped records, read once."""

from __future__ import annotations

import pytest

from harness.results.library import Library
from tests.advice.shipped import shipped as shipped_library
from tests.advice.shipped import shipped_once as shipped_once


@pytest.fixture
def shipped() -> Library:
    return shipped_library()
