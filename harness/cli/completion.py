"""``faultline completion``: the words of the command line, completed by the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_FAULTLINE_COMPLETE"
"""The environment variable by which a shell asks for completions."""

_EPILOG = """\b
Examples:
  eval "$(./faultline completion bash)"
  ./faultline completion zsh >> ~/.zshrc
  ./faultline completion fish > ~/.config/fish/completions/faultline.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script for SHELL that completes commands, options and experiments."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, shell
    # Not `source`, which asks Bash for its version first: it may be missing here.
    script = kind(click.get_current_context().find_root().command, {}, "faultline", VARIABLE)
    click.echo(script.source_template % script.source_vars())


def experiments(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the experiments and groups whose names begin with ``begun``."""
    from click.shell_completion import CompletionItem

    from harness.running.catalogue import listed

    ids = [each.id for each in listed()]
    names = [*dict.fromkeys(name.partition("/")[0] for name in ids), *ids]
    return [CompletionItem(name) for name in names if name.startswith(begun)]
