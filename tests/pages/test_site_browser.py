"""The site in a real browser: no error, readable in light and dark, filters from the address."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.pages.site import WrittenSite
from tests.pages.browser import NARROW_PX, WIDE_PX, find_browser, look

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.deep,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.mark.parametrize("width_px", [NARROW_PX, WIDE_PX])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_kind_of_page_is_whole_to_look_at(
    site: WrittenSite, tmp_path: Path, dark: bool, width_px: int
) -> None:
    assert BROWSER is not None
    folder = site.index.parent
    kinds = ["index", "stock", "results", "kills", "published"]
    pages = [
        *(folder / f"{name}.html" for name in kinds),
        *sorted(folder.glob("kills/*.html"))[::9],
    ]
    for page in pages:
        seen = look(BROWSER, page, tmp_path, dark=dark, width_px=width_px)
        assert seen.dark is dark
        wrong = [*seen.errors, *seen.missing, *seen.weak]
        assert not wrong, page.name
        assert not seen.unnamed, page.name
        assert seen.overflow <= 0, page.name


def shown_in(browser: str, address: str, scratch: Path) -> str:
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={scratch / 'profile'}", "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def test_the_address_chooses_what_is_shown(site: WrittenSite, tmp_path: Path) -> None:
    assert BROWSER is not None
    page = (site.index.parent / "kills.html").as_uri()
    everything = shown_in(BROWSER, page, tmp_path)
    assert "34 of 34 kills" in everything
    some = shown_in(BROWSER, f"{page}#?engine=stock+Spark&scheme=checkpoint", tmp_path)
    count = re.search(r"(\d+) of 34 kills · engine: stock Spark · scheme: checkpoint", some)
    assert count is not None
    assert 0 < int(count[1]) == some.count("<tr data-facets") - some.count('hidden=""><th')
    assert "index.html#?engine=stock+Spark&amp;scheme=checkpoint" in some, "links carry the choice"
    none = shown_in(BROWSER, f"{page}#?backend=docker", tmp_path)
    assert "0 of 34 kills · backend: docker" in none
