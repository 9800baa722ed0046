"""Settings of all tests of clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.cluster.spark import REPOSITORY


@pytest.fixture(scope="module", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each module records of its own, so that the user's clusters are neither swept nor seen.

    Processes that a test starts import this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        yield
