"""Why sentences of this group do not hold, or were not measured, in the results that ship.

By experiment and sentence. What an experiment can tell from its numbers is in `Claim.why`; here is
what was found out by looking at the records. No experiment imports this module: a better reason
discards no run.
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, Mapping[str, str]] = {}
