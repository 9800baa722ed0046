"""What the chosen cluster cannot run, while another one can."""

from __future__ import annotations

from harness.errors import UsageError


class Impossible(UsageError):
    """The cluster that was chosen cannot run it. An experiment skips such a run, and goes on."""
