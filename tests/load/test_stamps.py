"""The timestamps that records carry."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.load.plan import whole_ms
from harness.load.profile import RateProfile

STARTS = st.integers(1_600_000_000, 2_000_000_000)


@given(first=STARTS, second=STARTS, rate_per_s=st.integers(1, 20_000))
def test_a_pass_that_starts_at_another_second_stamps_alike(
    first: int, second: int, rate_per_s: int
) -> None:
    offsets_s = RateProfile.constant(rate_per_s, 3.0).intended_s(np.arange(3 * rate_per_s))
    stamps = [whole_ms(start + offsets_s) - start * 1000 for start in (first, second)]
    assert (stamps[0] == stamps[1]).all()
    assert stamps[0][0] == 0
    assert (stamps[0] <= offsets_s * 1000 + 1e-2).all()
