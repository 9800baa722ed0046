"""The site of a few real records, bad ones among them, read without a browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from harness.pages.site import SHIPPED_SITE, SOURCES, Set, WrittenSite, digest, write_site
from harness.results.archive import pack, readable
from harness.results.library import SHIPPED
from tests.pages.parser import Page, dangling


@pytest.fixture(scope="module")
def pages(site: WrittenSite) -> dict[Path, Page]:
    html = sorted(site.index.parent.rglob("*.html"))
    return {path.resolve(): Page(path) for path in html}


def test_every_link_leads_somewhere_and_no_name_is_there_twice(pages: dict[Path, Page]) -> None:
    assert not dangling(pages)
    for page in pages.values():
        assert len(page.ids) == len(set(page.ids)), page.path.name
        assert not page.unbalanced, page.path.name
        assert page.headings == 1, page.path.name


def test_every_picture_is_there_in_words(pages: dict[Path, Page]) -> None:
    assert sum(len(page.pictures) for page in pages.values()) >= 3
    for page in pages.values():
        assert all(picture.get("alt") for picture in page.pictures), page.path.name
        assert page.described == page.drawings, page.path.name
        assert all(region.get("aria-label") for region in page.regions), page.path.name


def test_there_is_a_page_for_every_kill(site: WrittenSite, pages: dict[Path, Page]) -> None:
    drawn = [page for path, page in pages.items() if path.parent.name == "kills"]
    assert site.kills == len(drawn) == 79  # 20 under stock Spark, 15 of states, 44 of the peers
    assert all(page.drawings == 1 for page in drawn)
    listed = pages[(site.index.parent / "kills.html").resolve()]
    assert sum(link.startswith("kills/") for link in listed.links) == 79


def test_an_attempt_that_was_made_again_has_no_pages_of_its_kills(tmp_path: Path) -> None:
    (machine,) = (readable(SHIPPED) / "records" / "live" / "state").iterdir()
    there = tmp_path / "set" / "records" / "live" / "state" / machine.name
    kept = next(path for path in sorted(machine.iterdir()) if (path / "kills.parquet").exists())
    for run, status in (("1-late", "invalid"), (kept.name, "ok")):
        shutil.copytree(kept, there / run)
        record = json.loads((kept / "record.json").read_text())
        changed = {**record, "run": run, "status": status}
        (there / run / "record.json").write_text(json.dumps(changed))
        written = write_site([Set(root=tmp_path / "set", label="set")], tmp_path / "site")
        assert written.kills, status
        pages = [path.name for path in (written.index.parent / "kills").iterdir()]
        assert all(run.replace(".", "-") in name for name in pages), "shown if it is all there is"


def test_old_records_lack_parts_and_say_so(pages: dict[Path, Page]) -> None:
    (old, *_) = (page for path, page in sorted(pages.items()) if "live-peers" in path.name)
    assert "not recorded" in old.text
    assert "this record has no twin’s windows" in old.text
    (new, *_) = (page for path, page in sorted(pages.items()) if "worker-kill" in path.name)
    assert "of its twin" in new.text
    assert "the driver removed an executor" in new.text


def test_bad_records_are_a_message_each_and_the_others_are_shown(
    site: WrittenSite, pages: dict[Path, Page]
) -> None:
    warnings = "\n".join(site.warnings)
    assert "0-no-record/record.json cannot be read" in warnings
    assert "0-no-series cannot be read and were left out" in warnings
    assert "stock/of-another-version are left out" in warnings
    assert len(site.warnings) == 3
    first = pages[site.index.resolve()]
    assert all(warning.splitlines()[0] in first.text for warning in site.warnings)
    assert "Output around the kill of one worker" in first.text


def test_what_is_not_there_is_shown_as_missing(site: WrittenSite, pages: dict[Path, Page]) -> None:
    text = pages[site.index.resolve()].text
    assert "Not measured in these records" in text
    assert "./faultline run live/matrix" in text
    points = pages[(site.index.parent / "results.html").resolve()]
    assert "not measured: no run of this point is in the records" in points.text
    assert not (site.index.parent / "edge.html").exists(), "a page of an earlier set"


def test_an_archive_gives_the_same_pages(records: Path, site: WrittenSite, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for name in ("live/state", "dpc/properties"):
        shutil.copytree(records / "records" / name, whole / "records" / name)
    pack(whole, tmp_path / "set.zip")
    again = [Set(root=tmp_path / "set.zip", label="x")]
    one = write_site([Set(root=whole, label="x")], tmp_path / "one").index.parent
    other = write_site(again, tmp_path / "other").index.parent
    files = [path.relative_to(one) for path in sorted(one.rglob("*")) if path.is_file()]
    assert len(files) > 20
    for file in files:
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    assert json.loads((one / SOURCES).read_text())["records"] == digest([tmp_path / "set.zip"])


def test_the_shipped_pages_show_the_shipped_records() -> None:
    made_from = json.loads((SHIPPED_SITE / SOURCES).read_text())["records"]
    assert made_from == digest([SHIPPED]), "make them anew: ./faultline site --shipped"
    kept = [path for path in SHIPPED_SITE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 10e6
    pages = {path.resolve(): Page(path) for path in kept if path.suffix == ".html"}
    assert not dangling(pages)


LEAST, LEAST_SHAPE = 4.5, 3.0
"""WCAG 2.1, level AA: text, and shapes that carry a meaning."""


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_contrast_in_light_and_in_dark(site: WrittenSite) -> None:
    style = (site.index.parent / "style.css").read_text()
    pairs = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", style)
    themes = [{name: pair[theme] for name, *pair in pairs} for theme in (0, 1)]
    assert {"ink", "soft", "link", "held", "failed", "unknown", "paper", "wash"} <= {*themes[0]}
    for colours in themes:
        for ground in ("paper", "wash", "alarm"):
            for text in ("ink", "soft", "link", "held", "failed", "unknown"):
                assert contrast(colours[text], colours[ground]) >= LEAST, (text, ground)
    bars = re.findall(r"\.phase\.(\w+) \{ fill: (#\w{6})", style)
    assert len(bars) == 6
    for name, colour in bars:
        assert contrast(colour, "#ffffff") >= LEAST, f"white words on the bar of {name}"
        assert all(contrast(colour, colours["paper"]) >= 2.4 for colours in themes), name
