"""`posthouse completion`: prints what a shell needs to complete commands and options."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer
from typer import completion as shells

PROGRAM = "posthouse"
VARIABLE = "_POSTHOUSE_COMPLETE"
Shell = Literal["bash", "zsh", "fish"]


def register(app: typer.Typer) -> None:
    """Add the command; the shell then calls the program itself."""
    shells.completion_init()  # type: ignore[attr-defined]
    app.command(rich_help_panel="Installation")(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion of commands and options for a shell, which reads it at its start.

    Example: posthouse completion bash > ~/.local/share/bash-completion/completions/posthouse
    """
    script: str = shells.get_completion_script(  # type: ignore[attr-defined]
        prog_name=PROGRAM, complete_var=VARIABLE, shell=shell
    )
    sys.stdout.write(script + "\n")
