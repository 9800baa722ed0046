"""Pages read by the parser of the standard library: links, names, pictures, facets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, unquote

VOID = {"meta", "link", "img", "br", "input", "hr", "col", "wbr", "source"}


@dataclass
class Page(HTMLParser):
    """What a test asks of a page."""

    path: Path
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    pictures: list[dict[str, str | None]] = field(default_factory=list)
    facets: list[dict[str, list[str]]] = field(default_factory=list)
    headings: int = 0
    cells: int = 0
    drawings: int = 0
    described: int = 0
    regions: list[dict[str, str | None]] = field(default_factory=list)
    unbalanced: list[str] = field(default_factory=list)
    text: str = ""
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.path.read_text())
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in VOID:
            self._open.append(tag)
        if name := given.get("id"):
            self.ids.append(name)
        for link in (given.get("href"), given.get("src")):
            if link:
                self.links.append(link)
        if tag == "img":
            self.pictures.append(given)
        if "data-facets" in given:
            self.facets.append(json.loads(given["data-facets"] or ""))
        if given.get("tabindex") == "0":
            self.regions.append(given)
        self.headings += tag == "h1"
        self.cells += tag == "td"
        self.drawings += tag == "svg"
        self.described += tag == "desc"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self._open and self._open[-1] == tag:
            self._open.pop()
        elif tag != "p":  # a <p> may be ended by what follows
            self.unbalanced.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data


def dangling(pages: dict[Path, Page]) -> list[str]:
    """Return every link that leads nowhere."""
    found = []
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("data:", "http://", "https://")):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name)).resolve() if name else path
            lost = anchor and target in pages and not _is_there(pages[target], anchor)
            if lost or not target.exists():
                found.append(f"{path.name}: {link}")
    return found


def _is_there(page: Page, anchor: str) -> bool:
    """Return True if a page has an element of this name, or a row with the chosen facets."""
    if not anchor.startswith("?"):
        return anchor in page.ids
    choice = dict(parse_qsl(anchor[1:]))
    return any(choice.items() <= {(n, v[0]) for n, v in row.items()} for row in page.facets)
