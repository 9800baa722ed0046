"""The report in a real browser: no error, no missing picture, readable in light and in dark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.measurement import Context
from harness.nightly.history import History
from harness.nightly.trends import write_trends
from harness.pages import report, walk
from harness.results.library import SHIPPED
from harness.results.record import Outcome, Point
from harness.results.store import RecordStore
from tests.nightly.test_history import night
from tests.pages.browser import NARROW_PX, WIDE_PX, find_browser, look
from tests.running.test_execution import SMOKE, make
from tests.toys import square, toy

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.deep,
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium on this machine: the report's look was not checked"
    ),
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write a report of a partly failed reproduction, and the trends of a few nights."""
    root = tmp_path_factory.mktemp("report")

    def run(point: Point, context: Context) -> Outcome:
        if point["x"] == 3:
            raise RuntimeError("oh")
        if point["x"] == 2:
            return replace(square(point, context), invalid="the load fell behind")
        return square(point, context)

    half = toy(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "all_experiments", lambda: [half])
        make(RecordStore(root), half, settings=SMOKE)
        for number in range(7):
            History(root).append(replace(night(number), alarms=("codec: 1.2 times",)))
        trends = write_trends(History(root))
        assert trends is not None
        return [*report.write_report(RecordStore(root)).pages, trends]


@pytest.mark.parametrize("width_px", [NARROW_PX, WIDE_PX])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_half_finished_report_is_whole_to_look_at(
    pages: list[Path], tmp_path: Path, dark: bool, width_px: int
) -> None:
    assert BROWSER is not None
    pictures = 0
    for page in pages:
        seen = look(BROWSER, page, tmp_path, dark=dark, width_px=width_px)
        assert seen.dark is dark
        assert not seen.errors, page.name
        assert not seen.missing, page.name
        assert not seen.unnamed, page.name
        assert not seen.weak, page.name
        assert seen.overflow <= 0, page.name
        pictures += seen.pictures
    assert pictures >= 2


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><html><head></head><body style='background:#fff'>"
        "<p style='color:#bbb'>too pale</p><img src='nowhere.png'><script>nothing()</script>"
        "<div style='width:3000px'>wide</div></body></html>"
    )
    assert BROWSER is not None
    seen = look(BROWSER, page, tmp_path, dark=False, width_px=WIDE_PX)
    assert any("nothing" in error for error in seen.errors)
    assert seen.missing
    assert (seen.unnamed, seen.weak) == (1, ["too pale: 1.92"])
    assert seen.overflow > 0


def test_the_report_of_the_shipped_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every real figure of a paper is there and can be seen."""
    root = tmp_path / "results"
    shipped = RecordStore(SHIPPED).records
    shutil.copytree(shipped / "stock", root / "records" / "stock")
    shutil.copytree(shipped / "dpc", root / "records" / "dpc")
    machine = next((root / "records" / "stock").glob("*/*")).name
    monkeypatch.setattr(report, "machine_name", lambda: machine)
    assert BROWSER is not None
    for page in report.write_report(RecordStore(root)).pages:
        seen = look(BROWSER, page, tmp_path, dark=True, width_px=NARROW_PX)
        wrong = [*seen.errors, *seen.missing, *seen.weak]
        assert not wrong, page.name
        assert not seen.unnamed, page.name
        assert seen.overflow <= 0, page.name
