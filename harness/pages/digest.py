"""What a site was made from: a digest of the records, kept beside the pages.

It is the same for a directory and for an archive of it, so that a test can say cheaply whether a
site is up to date."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from harness.results import archive
from harness.results.library import SHIPPED

FILE = "site.json"
SHIPPED_SITE = SHIPPED / "site"
"""The pages of the results that come with the repository."""


def digest(roots: Sequence[Path]) -> str:
    """Return a digest of all records in these results directories or archives."""
    found = sha256()
    for root in roots:
        for path in archive.records(archive.readable(root)):
            # Group, experiment, machine and run; not the place of the set.
            found.update("/".join(path.parts[-5:]).encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def made_from(site: Path) -> str | None:
    """Return the digest of the records that a site was made from; None without a site."""
    try:
        made = json.loads((site / FILE).read_text())["records"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return made if isinstance(made, str) else None
