"""Experiments that cut racks off: made by the same command again, in network namespaces.

A local cluster on loopback cannot cut. Where the user chose no network and the system gives
namespaces to users, the other experiments run as they would, and then these as a second command.

Tests: ``tests/cli/test_inside.py``."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from harness.cli.options import NETWORK, words_of
from harness.cluster.backends import DEFAULT, find_backend
from harness.cluster.local.network import why_not
from harness.experiment import Experiment
from harness.results.record import Profile
from harness.running.plan import PlannedRun

INSIDE = "local-namespaces"
_OWN = ("paper", "peers", "every", "point", "backend", "as_json")
"""Parameters that chose the experiments or the place, and the output, which is the first
command's."""


def divided(
    experiments: Sequence[Experiment], backend: str, profile: Profile
) -> tuple[Sequence[Experiment], Sequence[Experiment]]:
    """Return the experiments that this command makes, and those of a second one inside.

    The smoke profile has none inside: they would need a second cluster."""
    context = click.get_current_context(silent=True)
    network_chosen = context is None or context.meta.get(NETWORK) is not None
    if backend != DEFAULT or profile is Profile.SMOKE or network_chosen:
        return experiments, ()
    here, inside = find_backend(DEFAULT), find_backend(INSIDE)
    cut = [
        each
        for each in experiments
        if here.refusal(each.measurement.actions) and not inside.refusal(each.measurement.actions)
    ]
    if not cut or why_not() is not None:
        return experiments, ()
    return [each for each in experiments if each not in cut], cut


def make(runs: Sequence[PlannedRun]) -> int:
    """Make runs by a second command with the options of this one; return its exit code.

    It is 0 if there is nothing to make."""
    if not any(each.to_make for each in runs):
        return 0
    ids = [*dict.fromkeys(each.experiment.id for each in runs)]
    click.echo(f"next, in network namespaces: {', '.join(ids)}", err=True)
    options = " ".join(words_of(click.get_current_context(), but=_OWN).values())
    return run(["run", *ids, "--network", "namespaces", *shlex.split(options)])


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. Ctrl-C reaches both, and the second one ends by it."""
    command = [sys.executable, "-P", "-m", "harness.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as second:
        while second.returncode is None:
            with suppress(KeyboardInterrupt):
                second.wait()
    return second.returncode
