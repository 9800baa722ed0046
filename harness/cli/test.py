"""``faultline test``: the tests that a change must pass."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import STDOUT

import click

from harness.errors import EnvironmentFailure

ROOT = Path(__file__).parents[2]
CHECKS = (
    ("formatting", ("ruff", "format", "--check")),
    ("lint", ("ruff", "check")),
    ("types", ("mypy",)),
)
NO_TESTS = 5
"""pytest's exit code when the selection was empty."""

Parts = Mapping[str, Sequence[str]]
"""Runs of pytest over parts of the suite: the name of each, and its arguments."""

BRIEF, HALF = "--hypothesis-profile=brief", "--hypothesis-profile=half"
"""Fewer examples of each invariant (`tests.levels`)."""

STAND_BACK = ("nice", "-n", "5")
"""Lower priority for the tests without servers, which fill the waits of the others."""

# Side by side: a test with servers mostly waits for them.
AFTER_A_CHANGE: Parts = {
    "without servers": (
        *("-m", "not cluster and not deep and not long", "-n", "3", "--dist", "loadgroup"),
        *("-p", "no:benchmark", BRIEF),
    ),
    "with servers": ("-m", "cluster and not deep and not long", "-n", "0", BRIEF),
}
# One after the other: whatever takes longest has the machine to itself.
ALL: Parts = {
    "without servers, in parallel": (
        *("-m", "not cluster and not long", "-n", "3", "--dist", "worksteal"),
        *("-p", "no:benchmark", "--durations=10", HALF),
    ),
    "with servers, one at a time": (
        *("-m", "cluster and not long", "-n", "0", "--durations=10", HALF),
    ),
}

_EPILOG = """\b
Examples:
  ./faultline test
  ./faultline test --all
  ./faultline test --all --checks
  ./faultline test --shuffle 7
  ./faultline test tests/planning -k greedy
  ./faultline test -m "not cluster" -n 2 -x
  ./faultline test -m long
"""


@click.command(
    "test",
    epilog=_EPILOG,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@click.option("--all", "every", is_flag=True, help="Run the tests marked deep, too.")
@click.option("--checks", is_flag=True, help="Check formatting, lint and types first.")
@click.option(
    "--shuffle", type=int, metavar="SEED", help="In a random order: no test may need another one."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENTS]...")
def command(every: bool, checks: bool, shuffle: int | None, arguments: tuple[str, ...]) -> None:
    """Run the tests that a change must pass, or those that pytest's ARGUMENTS select.

    Without arguments: the contract of every interface (of clusters: on the local one), the papers'
    worked examples, invariants with few examples, the tables of deliberate mistakes, and real runs
    with real kills. This takes some six minutes on two cores: the tests with Kafka, Redis and
    Spark run at the same time as those without servers.

    With --all also the tests marked `deep`: more examples and seeds of the same, other clusters,
    some notebooks. This takes half an hour, first the tests without servers, then the others. Tests
    that take minutes more (other clusters, notebooks, the task engine elsewhere) are marked `long`;
    run them with `-m long`."""
    failed = [name for name, program in CHECKS if not _passes(name, program)] if checks else []
    order = () if shuffle is None else ("--shuffle", str(shuffle))
    if arguments:
        code = _pytest([*_anchored(arguments), *order], _environment())
    elif every:
        code = _suite(ALL, _in_turn, order)
    else:
        code = _suite(AFTER_A_CHANGE, _side_by_side, order)
    if failed:
        click.echo(f"faultline test: these checks failed: {', '.join(failed)}", err=True)
    sys.exit(code or bool(failed))


def _passes(name: str, program: Sequence[str]) -> bool:
    click.echo(f"faultline test: {name} ({' '.join(program)})", err=True)
    done = subprocess.run([sys.executable, "-m", *program], cwd=ROOT, check=False)
    return done.returncode == 0


def _suite(
    parts: Parts, make: Callable[[Parts, Mapping[str, str]], list[int]], order: Sequence[str]
) -> int:
    environment = _fetch_first()
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="faultline-test-") as scratch:
        records = {name: Path(scratch, f"{n}.xml") for n, name in enumerate(parts)}
        commands = {
            name: [str(ROOT / "tests"), *arguments, *order, f"--junitxml={records[name]}"]
            for name, arguments in parts.items()
        }
        codes = make(commands, environment)
        for record in records.values():
            totals += counts(record)
    # One line for all parts, in the form of pytest's own.
    click.echo(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return verdict(codes)


def _in_turn(commands: Parts, environment: Mapping[str, str]) -> list[int]:
    codes = []
    for name, arguments in commands.items():
        click.echo(f"faultline test: the tests {name}", err=True)
        codes.append(_pytest(arguments, environment))
    return codes


def _side_by_side(commands: Parts, environment: Mapping[str, str]) -> list[int]:
    """Run the parts at once. The output of the last one is live; the rest follows at the end."""
    *quiet, last = commands
    with ExitStack() as files:
        said = {name: files.enter_context(tempfile.TemporaryFile()) for name in quiet}
        begun = {
            name: subprocess.Popen(
                [*STAND_BACK, *_command(commands[name])],
                env=environment,
                stdout=said[name],
                stderr=STDOUT,
            )
            for name in quiet
        }
        click.echo(
            f"faultline test: the tests {last}; at the same time those {', '.join(quiet)}", err=True
        )
        try:
            code = _pytest(commands[last], environment)
        finally:  # after Ctrl-C, too: the terminal has told all of them
            codes = [each.wait() for each in begun.values()]
        for name in quiet:
            click.echo(f"faultline test: the tests {name}", err=True)
            said[name].seek(0)
            click.echo(said[name].read().decode(errors="replace"))
    return [*codes, code]


def verdict(codes: Sequence[int]) -> int:
    """Return the first exit code of a failure.

    A part without tests is not a failure, unless no part has any."""
    if all(code == NO_TESTS for code in codes):
        return NO_TESTS
    return next((code for code in codes if code not in (0, NO_TESTS)), 0)


def counts(record: Path) -> Counter[str]:
    """Count tests passed, failed (errors too) and skipped in pytest's JUnit record."""
    from xml.etree import ElementTree

    totals: Counter[str] = Counter()
    if not record.is_file():
        return totals
    for suite in ElementTree.parse(record).getroot().iter("testsuite"):
        tests, failures, errors, skipped = (
            int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
        )
        totals["failed"] += failures + errors
        totals["skipped"] += skipped
        totals["passed"] += tests - failures - errors - skipped
    return totals


def _fetch_first() -> dict[str, str]:
    """Fetch the servers with progress, not silently in the first test; return the environment.

    A server that cannot be had fails the tests that need it, each with the same message."""
    from harness.environment.jars import ensure_jars
    from harness.environment.redis_server import find_redis

    for find in (find_redis, ensure_jars, _build_image):
        try:
            find()
        except EnvironmentFailure as error:
            click.echo(f"faultline: {error}", err=True)
    return _environment()


def _build_image() -> None:
    """Build the image here: the first time takes minutes, longer than one test may take.

    Without a daemon there is nothing to do: the tests of containers are skipped with that reason.
    """
    from harness.cluster.docker.daemon import connect, ensure_image

    try:
        client = connect()
    except EnvironmentFailure:
        return
    with closing(client):
        ensure_image(client, lambda text: click.echo(f"faultline test: {text}", err=True))


def _environment() -> dict[str, str]:
    from harness.environment.java import find_java

    try:
        return {**os.environ, "JAVA_HOME": str(find_java(fetch=False).home)}
    except EnvironmentFailure:
        return dict(os.environ)


def _anchored(arguments: Sequence[str]) -> list[str]:
    """Return ``arguments``, with the test directory when they name no path of their own."""
    if any(Path(argument.split("::")[0]).exists() for argument in arguments):
        return list(arguments)
    return [*arguments, str(ROOT / "tests")]


def _command(arguments: Sequence[str]) -> list[str]:
    fixed = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    return [sys.executable, "-P", "-m", "pytest", *fixed, *arguments]


def _pytest(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    with subprocess.Popen(_command(arguments), env=environment) as pytest:
        try:
            return pytest.wait()
        except KeyboardInterrupt:
            # The terminal has told pytest too; its fixtures stop their servers now.
            pytest.wait()
            raise
