"""The command line: one lazy group, so that ``--help`` and ``list`` start fast."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from harness import __version__
from harness.errors import EnvironmentFailure, FaultlineError
from harness.text import did_you_mean

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module with a click command called `command`, one line of help)
    "list": ("harness.cli.list_experiments", "Show every experiment."),
    "run": ("harness.cli.run", "Run experiments by name."),
    "try": ("harness.cli.try_file", "Try a workload file of your own, then kill under it."),
    "record": ("harness.cli.record", "Copy a topic into a file that a workload replays."),
    "reproduce": ("harness.cli.reproduce", "Reproduce the papers' figures."),
    "report": ("harness.cli.report", "Write the report from the records."),
    "site": ("harness.cli.site", "Write results as pages with filters; no server needed."),
    "artifact": ("harness.cli.artifact", "Write an archive for reviewers."),
    "compare": ("harness.cli.compare", "Compare two sets of results."),
    "export": ("harness.cli.export", "Write results as one Parquet or CSV file."),
    "cluster": ("harness.cli.cluster", "Start, list and stop clusters by hand."),
    "plan": ("harness.cli.plan", "Choose the tasks of a topology to replicate."),
    "interval": ("harness.cli.interval", "Compute how often to checkpoint, and the gain."),
    "failures": ("harness.cli.failures", "Make a failure schedule from a failure log."),
    "advise": ("harness.cli.advise", "Choose a scheme, an interval and a plan for a job."),
    "job": ("harness.cli.job", "Write a running job's metrics as a file for advise."),
    "datasets": ("harness.cli.datasets", "List the data and its sources; check and convert it."),
    "doctor": ("harness.cli.doctor", "Check what this machine has and what it lacks."),
    "simulate": (
        "harness.cli.simulate",
        "Try the protocols under random failures in virtual time.",
    ),
    "endure": ("harness.cli.endure", "Kill nodes of a live engine, and check its output."),
    "notebooks": ("harness.cli.notebooks", "Open the notebooks, or render them."),
    "nightly": ("harness.cli.nightly", "Compare this checkout with an earlier revision."),
    "impact": ("harness.cli.impact", "Show which records a change voids."),
    "test": ("harness.cli.test", "Run the tests."),
}
_COMPLETE = "_FAULTLINE_COMPLETE"
"""The environment variable by which a shell asks for completions."""
_FULL_BYTES = 1 << 20
"""A disk with less free space than this is called full."""


@contextmanager
def _end_with_reader() -> Iterator[None]:
    """End quietly, as by SIGPIPE, when the reader of the output has gone (``| head``)."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # the output that is still buffered
        sys.exit(128 + signal.SIGPIPE)


class LazyGroup(click.Group):
    """Imports a command's module only when that command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _end_with_reader():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _end_with_reader():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            ctx.fail(f"there is no command {cmd_name!r}; {did_you_mean(cmd_name, COMMANDS)}")
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="faultline")
def cli() -> None:
    """Run stream-processing jobs, break the cluster under them, and measure the damage."""


def system_failure(error: OSError, arguments: Sequence[str]) -> EnvironmentFailure:
    """Return a refusal by the system as an error of ours, with its path and its remedy.

    A write that finds the disk full does not name its file. Then the places that may be meant (in
    ``arguments``, and where every command writes) are looked at."""
    places = [error.filename] if error.filename else []
    remedy = "choose another place"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "make room there or choose another place"
        places = places or _full_places(arguments)
    elif error.errno == errno.ENAMETOOLONG:
        remedy = "give a shorter name"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "choose a place that you can write to"
    where = f"{', '.join(map(str, places))}: " if places else ""
    return EnvironmentFailure(
        f"{where}{error.strerror or error}", remedy=f"{remedy}; what was recorded before is whole"
    )


def _full_places(arguments: Sequence[str]) -> list[Path]:
    import tempfile

    named = [Path(argument.partition("=")[2] or argument) for argument in arguments]
    results = Path(__file__).parents[2] / "results"
    full = []
    for path in [*named, results, Path.home() / ".cache", Path(tempfile.gettempdir())]:
        with suppress(OSError):
            there = next(each for each in (path, *path.absolute().parents) if each.exists())
            if shutil.disk_usage(there).free < _FULL_BYTES:
                full.append(path.absolute())
    return list(dict.fromkeys(full))


def main(elsewhere: Callable[[Sequence[str]], int | None] = lambda arguments: None) -> NoReturn:
    """Run the command line; a `FaultlineError` becomes one message and its exit code.

    ``elsewhere`` runs a command in another process and returns its exit code, None if it cannot."""
    try:
        if (code := elsewhere(sys.argv[1:])) is not None:
            sys.exit(code)
        cli.main(prog_name="./faultline", standalone_mode=False, complete_var=_COMPLETE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (FaultlineError, OSError) as error:
        failure = (
            error if isinstance(error, FaultlineError) else system_failure(error, sys.argv[1:])
        )
        click.echo(f"faultline: {failure}", err=True)
        sys.exit(failure.exit_code)
    sys.exit(0)
