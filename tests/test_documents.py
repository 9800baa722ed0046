"""Commands, options, experiments and files named in documents and help texts exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from harness.cli.main import COMMANDS, cli
from harness.cli.plan import command as plan
from harness.cli.simulate import command as simulate
from harness.cluster.base import Action, ClusterSpec
from harness.failures.files import read_schedule
from harness.results.provenance import ROOT
from harness.running.discovery import all_experiments, find
from harness.simulator.faults import OF_THE_PROTOCOL
from harness.simulator.topologies import TOPOLOGIES

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "results" / "baselines" / "README.md",
]
EXAMPLES = ROOT / "docs" / "examples"
MADE = ("results/report", "results/history", "records/")
"""Folders that runs write."""
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")


def help_texts() -> Iterator[tuple[str, str]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        commands = [command, *getattr(command, "commands", {}).values()]
        yield from ((name, f"{each.help}\n{each.epilog}") for each in commands)


def command_lines() -> Iterator[tuple[str, str]]:
    """Yield every command line that a reader might copy, and its place."""
    texts = [(path.name, path.read_text()) for path in DOCUMENTS]
    for where, text in [*texts, *help_texts()]:
        for line in re.findall(
            r"^ *\./faultline (.*)$|`\./faultline ([^`\n]*)`", text, re.MULTILINE
        ):
            words = "".join(line).split("  ")[0].split(" # ")[0].split(" > ")[0].split(" | ")[0]
            yield where, words.rstrip(",;:.").strip()


@pytest.mark.parametrize(("where", "line"), sorted(set(command_lines())))
def test_a_command_line_can_be_given_as_it_is_printed(where: str, line: str) -> None:
    command: click.Command = cli
    context = click.Context(cli)
    words = shlex.split(line)
    while isinstance(command, click.Group) and words and words[0] in command.list_commands(context):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command, context = found, click.Context(found, **found.context_settings)
    assert command is not cli or not words or words[0].startswith("-"), f"{where}: no such command"
    options, _, _ = command.make_parser(context).parse_args(words)
    for parameter in command.params:
        given = options.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(given, str):
            parameter.type.convert(given, parameter, context)
    if command.name == "run" and words and not PLACEHOLDER.search(line):
        assert find(options["experiments"]), f"{where}: no such experiment"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_names_files_and_experiments_that_exist(path: Path) -> None:
    text = path.read_text()
    for link in re.findall(r"\]\((?!http|#)([^)#]+)[^)]*\)", text):
        assert (path.parent / link).exists(), link
    groups = {experiment.group for experiment in all_experiments()}
    for name in re.findall(r"`([\w./-]+/[\w.-]*)`", text):
        if name.split("/")[0] in groups and "." not in name:
            assert find([name.rstrip("/")])
        elif not name.startswith((*MADE, ".", "/")):
            near = (path.parent / name, ROOT / name, ROOT / f"{name}.py", ROOT / "harness" / name)
            assert any(place.exists() for place in near), name


def test_the_examples_are_what_the_commands_take() -> None:
    text = (EXAMPLES / "topology.yaml").read_text()
    for line in text.splitlines()[1:]:
        assert line in (plan.epilog or ""), "the help of `plan` shows the same topology"
    schedule = read_schedule(EXAMPLES / "failures.yaml")
    schedule.check(rack_of=ClusterSpec(racks=2).rack_of, actions=list(Action), lasting=True)


def test_the_help_of_simulate_names_every_topology_and_fault() -> None:
    words = set(re.findall(r"[\w-]+", simulate.epilog or ""))
    assert words >= {*TOPOLOGIES, *(kind.value for kind in OF_THE_PROTOCOL)}
