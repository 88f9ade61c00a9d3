"""`posthouse completion`: prints the shell script that completes commands, options and queues."""

from __future__ import annotations

import sys
from typing import Annotated, Final, Literal

import typer
from typer import completion as shells

from posthouse.cli.complete import VARIABLE

Shell = Literal["bash", "zsh", "fish"]

SCRIPTS: Final = {
    "bash": f"""\
_posthouse_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $({VARIABLE}=bash "$1" "${{COMP_WORDS[@]:1:COMP_CWORD}}") )
}}
complete -o default -F _posthouse_completion posthouse
""",
    "zsh": f"""\
#compdef posthouse
_posthouse_completion() {{
    local -a found
    found=("${{(@f)$({VARIABLE}=zsh posthouse "${{(@)words[2,CURRENT]}}")}}")
    compadd -a found
}}
compdef _posthouse_completion posthouse
""",
    "fish": (
        "complete --command posthouse --no-files --arguments "
        f"'(env {VARIABLE}=fish posthouse (commandline -opc)[2..-1] (commandline -ct))'\n"
    ),
}


def register(app: typer.Typer) -> None:
    """Add the command; the shell then calls the program itself."""
    shells.completion_init()  # type: ignore[attr-defined]  # for scripts of version 0.1
    app.command(rich_help_panel="Installation")(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> None:
    """Print the completion of commands, options and queue names for a shell.

    The shell reads this script when it starts.

    Example: posthouse completion bash > ~/.local/share/bash-completion/completions/posthouse
    """
    sys.stdout.write(SCRIPTS[shell])
