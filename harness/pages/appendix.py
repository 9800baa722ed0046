"""The appendix as Markdown, from one template, and the same text as a page.

Tests: ``tests/pages/test_appendix.py``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2
import mistune

from harness import __version__
from harness.pages.appendix_rows import Judged, counted, parts
from harness.pages.layout import TEMPLATES
from harness.pages.surroundings import locks, machines, packages, pinned_jars
from harness.pages.trials import TRIALS

_CODE = re.compile(r"<code>.*?</code>")
_SPECIAL = re.compile(r"([\\`*_\[\]|<>])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The revision whose tree is in the archive."""

    commit: str
    date: str
    """ISO date of the commit."""
    unix_s: int
    """The same instant; every file of the archive has it."""


def markdown(items: Sequence[Judged], source: Source, *, title: str) -> str:
    """Return the appendix; ``title`` names the set."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=False,  # Markdown, whose own characters `plain` escapes
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"plain": plain, "code": code}
    runs = {record.run: record for item in items for record in item.assessment.campaign.records}
    text: str = environment.get_template("appendix.md.j2").render(
        title=title,
        version=__version__,
        source=source,
        parts=parts(items),
        counts=list(counted(items)),
        trials=TRIALS,
        machines=machines(runs.values()),
        locks=locks(),
        jars=pinned_jars(),
        packages=packages(),
    )
    return text


def html(text: str) -> str:
    """Return the page of a Markdown text: one file, no network."""
    body = str(mistune.create_markdown(escape=True, plugins=["table"])(text))
    # In a table's code, mistune leaves the backslash that keeps a bar from ending the cell.
    body = _CODE.sub(lambda found: found[0].replace("\\|", "|"), body)
    title = text.partition("\n")[0].removeprefix("# ")
    style = "".join((TEMPLATES / name).read_text() for name in ("style.css", "appendix.css"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}"
        "</main>\n</body>\n</html>\n"
    )


def plain(text: object) -> str:
    """Return a text for a line or a cell, its characters without a meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def code(text: object) -> str:
    """Return a text as code in a line or a cell."""
    return f"`{' '.join(str(text).split())}`".replace("|", "\\|")
