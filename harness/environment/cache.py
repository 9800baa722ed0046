"""The user's cache, where this package looks for it (`harness.cache`)."""

from __future__ import annotations

from harness.cache import cache_directory, locked, sha256, to_stderr

__all__ = ["cache_directory", "locked", "sha256", "to_stderr"]
