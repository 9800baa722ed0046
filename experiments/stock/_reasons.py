"""What was found out about verdicts of this group: see `harness.running.discovery.reasons`."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, Mapping[str, str]] = {}
