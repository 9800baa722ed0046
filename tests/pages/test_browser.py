"""Pages in a real browser: no error, no missing picture, readable in light and in dark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.measurement import Context
from harness.nightly.history import History
from harness.nightly.trends import write_trends
from harness.pages import walk
from harness.pages.report import write_report
from harness.pages.site import WrittenSite
from harness.results.record import Outcome, Point
from harness.results.store import RecordStore
from tests.nightly.test_history import night
from tests.pages.browser import NARROW_PX, WIDE_PX, document, find_browser, look
from tests.running.test_execution import SMOKE, make
from tests.toys import square, toy

BROWSER = find_browser() or ""
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine: the look is not checked"),
]


LOOKS = pytest.mark.parametrize(
    ("dark", "width_px"),
    [(False, WIDE_PX), (True, NARROW_PX)],
    ids=["light and wide", "dark and narrow"],
)


def pictures_of_whole(pages: Iterable[Path], scratch: Path, *, dark: bool, width_px: int) -> int:
    """Open pages, demand that none has a defect, and return the number of their pictures."""
    pictures = 0
    for page in pages:
        seen = look(BROWSER, page, scratch, dark=dark, width_px=width_px)
        assert seen.dark is dark
        assert not [*seen.errors, *seen.missing, *seen.weak], page.name
        assert not seen.unnamed, page.name
        assert seen.overflow <= 0, page.name
        pictures += seen.pictures
    return pictures


@pytest.fixture(scope="module")
def half_finished(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write a report of a partly failed reproduction, and the trends of a few nights."""
    root = tmp_path_factory.mktemp("report")

    def run(point: Point, context: Context) -> Outcome:
        if point["x"] == 3:
            raise RuntimeError("oh")
        invalid = "the load fell behind" if point["x"] == 2 else None
        return replace(square(point, context), invalid=invalid)

    half = toy(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "all_experiments", lambda: [half])
        make(RecordStore(root), half, settings=SMOKE)
        for number in range(7):
            History(root).append(replace(night(number), alarms=("codec: 1.2 times",)))
        write_trends(History(root))
        return sorted(write_report(RecordStore(root)).index.parent.glob("*.html"))


@LOOKS
def test_a_half_finished_report_is_whole_to_look_at(
    half_finished: list[Path], tmp_path: Path, dark: bool, width_px: int
) -> None:
    assert pictures_of_whole(half_finished, tmp_path, dark=dark, width_px=width_px) >= 2


@LOOKS
def test_every_kind_of_page_of_a_site_is_whole_to_look_at(
    site: WrittenSite, tmp_path: Path, dark: bool, width_px: int
) -> None:
    folder = site.index.parent
    names = ["index", "stock", "results", "kills", "published"]
    pages = [*(folder / f"{name}.html" for name in names), *sorted(folder.glob("kills/*"))[::9]]
    pictures_of_whole(pages, tmp_path, dark=dark, width_px=width_px)


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><html><head></head><body style='background:#fff'>"
        "<p style='color:#bbb'>too pale</p><img src='nowhere.png'><script>nothing()</script>"
        "<div style='width:3000px'>wide</div></body></html>"
    )
    seen = look(BROWSER, page, tmp_path, dark=False, width_px=WIDE_PX)
    assert any("nothing" in error for error in seen.errors)
    assert seen.missing
    assert (seen.unnamed, seen.weak) == (1, ["too pale: 1.92"])
    assert seen.overflow > 0


def test_the_address_chooses_what_is_shown(site: WrittenSite, tmp_path: Path) -> None:
    page, kills = (site.index.parent / "kills.html").as_uri(), site.kills
    assert f"{kills} of {kills} kills" in document(BROWSER, page, tmp_path)
    some = document(BROWSER, f"{page}#?engine=stock+Spark&scheme=checkpoint", tmp_path)
    count = re.search(rf"(\d+) of {kills} kills · engine: stock Spark · scheme: checkpoint", some)
    assert count is not None
    assert 0 < int(count[1]) == some.count("<tr data-facets") - some.count('hidden=""><th')
    assert "index.html#?engine=stock+Spark&amp;scheme=checkpoint" in some, "links carry the choice"
    none = document(BROWSER, f"{page}#?backend=docker", tmp_path)
    assert f"0 of {kills} kills · backend: docker" in none
