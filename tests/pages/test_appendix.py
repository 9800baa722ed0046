"""The appendix: every claim, commands that can be given, places that exist, one source for both."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from harness.cli.main import cli
from harness.environment.licences import jars, pins
from harness.pages.appendix import html, plain
from harness.pages.layout import TEMPLATES
from harness.results.provenance import ROOT
from tests.pages.parser import Page


@pytest.fixture(scope="session")
def text(artifact: Path) -> str:
    return (artifact / "appendix.md").read_text()


def rows(text: str) -> list[list[str]]:
    """Return the cells of every row of a table."""
    lines = (line for line in text.splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_claim_is_in_it_with_a_rule_and_a_place(text: str, artifact: Path) -> None:
    claims = json.loads((artifact / "results" / "report" / "claims.json").read_text())
    assert len(claims) > 10
    begun = [cells for cells in rows(text) if len(cells) == 6 and cells[0].startswith("`")]
    assert len(begun) == len(claims)
    for claim, cells in zip(sorted(claims, key=str_id), sorted(begun, key=cell_id), strict=True):
        ground = claim["foregone"] or claim["rests_on"]
        assert cells[0].startswith(f"`{claim['id']}` ({claim['kind']}, {ground})")
        assert cells[1].removesuffix(", post hoc") == claim["verdict"]
        assert f"version {claim['rule']['version']} of {claim['rule']['since']}" in cells[5]
        (place, *_) = re.findall(r"\[(\S+):(\d+)\]\(source/(\S+)\)", cells[5])
        assert place[0] == place[2]
        assert (ROOT / place[0]).exists()


def str_id(claim: dict[str, str]) -> tuple[str, str]:
    return claim["id"], claim["text"]


def cell_id(cells: list[str]) -> tuple[str, str]:
    name, _, words = cells[0].partition("` ")
    return name.strip("`"), words


def commands(text: str) -> list[str]:
    """Return the command lines of the code blocks and of the lines."""
    found = re.findall(r"^(?:sh )?\./faultline (.*?)(?:  #.*| \|\|.*)?$", text, re.MULTILINE)
    return found + re.findall(r"`\./faultline ([^`]*)`", text)


def parse(line: str) -> None:
    words = shlex.split(line)
    command = cli.get_command(click.Context(cli), words.pop(0))
    assert command is not None
    context = click.Context(command, **command.context_settings)
    command.make_parser(context).parse_args(words)


def test_every_command_can_be_given_as_it_is_printed(text: str) -> None:
    found = commands(text)
    script = (TEMPLATES / "ten-minutes.sh").read_text().replace("\\\n", "")
    assert len(found) > 15
    assert len(commands(script)) >= 4
    for line in [*found, *commands(script)]:
        parse(line)
    with pytest.raises(click.UsageError):
        parse("run dpc --no-such-option")


def test_machines_locks_jars_and_licences_are_in_it(text: str) -> None:
    assert "AMD EPYC" in text
    for name, digest in jars():
        assert f"| {name} | " in text
        assert digest in text
    for name, version in pins(ROOT / "requirements.lock"):
        assert f"| {name}=={version} | " in text
    assert "replicated" in text
    assert "not reproduced" in text


def test_the_page_is_the_same_text(text: str, artifact: Path) -> None:
    path = artifact / "appendix.html"
    assert path.read_text() == html(text)
    page = Page(path)
    bodies = [cells for cells in rows(text) if not set("".join(cells)) <= set("-")]
    assert page.cells >= sum(len(cells) for cells in bodies if cells[0].startswith("`"))
    assert "http" not in "".join(page.links)
    for link in page.links:
        assert (artifact / link).exists(), link


@pytest.mark.parametrize("words", ["a|b", "x < y", "**bold**", "[a](b)", "a_b_c", "`code`", "<b>"])
def test_no_word_is_taken_for_markup(words: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(html(f"# t\n\n| a |\n|---|\n| {plain(words)} |\n"))
    assert words in Page(path).text
