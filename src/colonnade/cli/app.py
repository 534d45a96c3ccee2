"""The command itself, and the one place that turns Colonnade's errors into a sentence and an exit code."""

from __future__ import annotations

import json
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from colonnade.errors import ColonnadeError, printable
from colonnade.interrupt import INTERRUPTED, listen
from colonnade.version import __version__

USER_ERROR = 2

out = Console()
err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


class Verbs(TyperGroup):
    """All verbs; it reports the errors that they raise on purpose."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            listen()
            warnings.filterwarnings("default", category=DeprecationWarning, module="colonnade")  # of job files
            return super().invoke(ctx)
        except ColonnadeError as error:
            say("error:", str(error), style="bold red")
            raise typer.Exit(USER_ERROR) from None
        except KeyboardInterrupt as interrupt:
            say("interrupted;", str(interrupt) or "nothing is left to do.", style="bold yellow")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=Verbs,
    help="Vertical federated learning: every party keeps its columns; together they hold up one model.",
    epilog="Start with: colonnade demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # only bugs of ours show a traceback, and a plain one is best in a bug report
)


LONGEST_LINE = 4000  # characters of one sentence on a terminal


def say(first: str, rest: str, *, style: str) -> None:
    """Print one line to stderr, without line breaks, its first word in colour."""
    err.print(Text.assemble((first, style), " ", printable(rest, LONGEST_LINE)), soft_wrap=True)


def echo(text: str) -> None:
    """Print lines to stdout; names of files, columns or classes in them cannot control the terminal."""
    typer.echo(clean(text))


def remark(text: str) -> None:
    """Print lines to stderr; names in them cannot control the terminal."""
    err.print(clean(text), highlight=False, markup=False, soft_wrap=True)


def clean(text: str) -> str:
    r"""A text of several lines, with "?" for characters that are not printable.

    >>> clean("one\n\x1b[2Jtwo")
    'one\n?[2Jtwo'
    """
    return "\n".join(printable(line, LONGEST_LINE) for line in text.split("\n"))


def print_json(value: dict[str, Any]) -> None:
    """Print the one JSON object of a verb, for other programs."""
    typer.echo(json.dumps(value, indent=2))


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"colonnade {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Vertical federated learning: every party keeps its columns; together they hold up one model."""
