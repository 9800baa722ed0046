"""Options that several commands share, and their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import click

from harness.cluster.backends import BACKENDS, DEFAULT
from harness.errors import UsageError
from harness.results.record import Profile
from harness.seeds import DEFAULT_SEED
from harness.text import did_you_mean, parse_bytes, parse_duration_s, parse_share

if TYPE_CHECKING:
    from harness.results.library import Library
    from harness.running.plan import RunSettings

NETWORK = "faultline.network"
"""The key of a context's value of `--network`, None where the user gave none."""
Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_OUT = Path(__file__).resolve().parent.parent.parent / "results"


class Quantity(click.ParamType[float]):
    """A number with a unit in the text, such as ``20min``."""

    def __init__(self, name: str, parse: Callable[..., float]) -> None:
        self.name, self._parse = name, parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the quantity in its base unit; a text that is none is refused."""
        return self._parse(value, name=param.opts[-1] if param else self.name)


DURATION = Quantity("duration", parse_duration_s)
DURATION_OR_0 = Quantity("duration", partial(parse_duration_s, zero=True))
SIZE = Quantity("size", parse_bytes)
SHARE = Quantity("share", parse_share)
ABOVE_0 = click.FloatRange(min=0, min_open=True)
PATH = click.Path(path_type=Path)
THERE = click.Path(exists=True, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)

out_option = click.option(
    "--out",
    type=FOLDER,
    default=DEFAULT_OUT,
    show_default="results/ of this checkout",
    help="Where records and the report are kept.",
)

results_option = click.option(
    "--from",
    "roots",
    multiple=True,
    type=THERE,
    help="Results: a directory, or an archive of `export --raw`; repeatable.  [default: those that "
    "ship with the repository]",
)

profile_option = click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.QUICK.value,
    help="smoke: does it run; quick: for two cores; paper: the scale of the papers.",
)


def _with_network(context: click.Context, parameter: click.Parameter, backend: str) -> str:
    """Choose one of the two local backends by `--network`."""
    network = context.meta.get(NETWORK)
    if network is None:
        return backend
    if backend not in (DEFAULT, "local-namespaces"):
        raise UsageError(
            f"--network {network} is for local clusters, not for {backend}",
            remedy="leave one of the two options out",
        )
    return DEFAULT if network == "loopback" else "local-namespaces"


_network_option = click.option(
    "--network",
    type=click.Choice(["loopback", "namespaces"]),
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, network: context.meta.update({NETWORK: network}),
    help="Network of a local cluster: loopback addresses (the default), or a namespace for each "
    "worker, which can then be cut off and whose bytes are counted.",
)

_backend_option = click.option(
    "--cluster",
    "backend",
    callback=_with_network,
    metavar=f"{'|'.join(BACKENDS)}|FILE.yaml",
    default=DEFAULT,
    help="Where Kafka, Redis and Spark run; a file lists machines, or describes existing servers.",
)


def cluster_option(command: Command) -> Command:
    """Add `--cluster` and `--network`: the place where servers run."""
    return _backend_option(_network_option(command))


option = click.option
"""The mark of a field that is an option: ``seed: Annotated[int, option("--seed")]``."""
flag = partial(click.option, is_flag=True)


def options_of(kind: type[Any], name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the option of each field of ``kind``, a dataclass.

    The command gets their values as one of its objects, under ``name``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def together(**given: Any) -> None:
            own = {each.name: given.pop(each.name) for each in fields(kind)}
            command(**given, **{name: kind(**own)})

        changed: Any = together
        for field, hint in reversed(get_type_hints(kind, include_extras=True).items()):
            (add,) = hint.__metadata__
            add(changed)
            changed.__click_params__[-1].name = field
        return together

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options that every measuring command has."""

    profile: Annotated[str, profile_option]
    backend: Annotated[str, cluster_option]
    seed: Annotated[int, option("--seed", default=DEFAULT_SEED, help="Root of all randomness.")]
    repeats: Annotated[
        int | None,
        option(
            "--repeats",
            type=int,
            help="Runs of each point, instead of the profile's number. Those that are there count; "
            "the others are added, each with seeds of its own.",
        ),
    ]
    out: Annotated[Path, out_option]
    failures: Annotated[
        Path | None,
        option(
            "--failures",
            type=PATH,
            help="A failure schedule of your own (YAML) instead of the experiment's.",
        ),
    ]
    text: Annotated[
        Sequence[Path],
        option(
            "--text",
            multiple=True,
            type=PATH,
            help="Files or folders to count words in, instead of Python's own library.",
        ),
    ]
    again: Annotated[bool, flag("--again", help="Repeat runs that were made already.")]
    strict: Annotated[bool, flag("--strict", help="Exit with 1 also when a paper's claim fails.")]
    conf: Annotated[
        Sequence[str],
        option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark's own for every application of this command; repeatable.",
        ),
    ]
    keep: Annotated[bool, flag("--keep", help="After a failed run leave the cluster up until Enter "
        "is pressed.")]  # fmt: skip
    dry_run: Annotated[
        bool, flag("--dry-run", help="Show the runs and their times, and make none.")
    ]
    verbose: Annotated[bool, flag("-v", "--verbose", help="With --dry-run: every point of the "
        "grids.")]  # fmt: skip

    def settings(self, **own: Any) -> RunSettings:
        """Return the runner's settings, with the command's ``own`` options of experiments.

        Options that the user did not give are left out."""
        from harness.running.plan import RunSettings

        options = {
            "failures": self.failures,
            "text": list(self.text),
            "conf": list(self.conf),
            **own,
        }
        return RunSettings(
            profile=Profile(self.profile),
            root_seed=self.seed,
            repeats=self.repeats,
            again=self.again,
            options={name: value for name, value in options.items() if value},
        )


def words_of(context: click.Context, *, but: Collection[str] = ()) -> dict[str, str]:
    """Return the options of a command that differ from their defaults, as words that give them.

    ``but`` names parameters to leave out. The words are for a shell, so they are quoted."""
    words = {}
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if not isinstance(option, click.Option) or option.name in but:
            continue
        if value is None or value is False or value in ((), option.get_default(context)):
            continue
        each = value if option.multiple else [value]
        name = option.opts[-1]
        texts = [f"{one:.10g}" if isinstance(one, float) else str(one) for one in each]
        words[name] = name if value is True else " ".join(f"{name} {quote(one)}" for one in texts)
    return words


run_options = options_of(RunOptions, "chosen")


def demand_runs(experiment: str | None, found: Collection[Library]) -> None:
    """Raise `UsageError` with a near name if ``experiment`` has no run in any of ``found``."""
    from harness.results import load

    if experiment is None or any(library.found for library in found):
        return
    roots = list(dict.fromkeys(root for library in found for root in library.roots))
    ids = {each.record.experiment for each in load(*roots).found}
    known = sorted(ids | {name.split("/")[0] for name in ids})
    if experiment not in known:
        raise UsageError(
            f"--experiment: there is no run of {experiment!r} in {', '.join(map(str, roots))}",
            remedy=did_you_mean(experiment, known),
        )
