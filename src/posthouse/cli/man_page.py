"""`man posthouse` from the program's own help: `python -m posthouse.cli.man_page`.

The page is the file `posthouse.1` beside this module; the package installs it as share/man/man1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from posthouse import __version__
from posthouse.cli.command import COMMON_NAMES
from posthouse.cli.commands_page import help_parts, is_common, option_words
from posthouse.cli.main import program
from posthouse.cli.verbs import commands

_TOP: Final = r""".TH POSTHOUSE 1 "" "posthouse {version}" "Posthouse"
.SH NAME
posthouse \- a message queue manager that speaks MSMQ on the wire
.SH SYNOPSIS
.B posthouse
.I command
.RI [ argument " ...]"
.RI [ option " ...]"
.br
.B posthouse help
.RI [ command ]
.SH DESCRIPTION
Posthouse keeps messages in queues and exchanges them with other queue managers, Windows included.
.B posthouse serve
runs a queue manager. The other commands talk to one that runs, or work on its files.
.PP
A bare name is a private queue of the queue manager:
.BR "posthouse send orders" .
Other queues have path names
.RB ( \&.\eprivate$\eorders )
or format names
.RB ( DIRECT=OS:host\eprivate$\eorders ).
Slashes may stand for backslashes. Write names with a dollar sign in single quotes.
.PP
Durations are written 500ms, 5s, 10m, 12h, 30d or 2w; a number alone is seconds. Commands that
destroy something ask on a terminal; \fB\-\-yes\fP answers.
"""
_END: Final = r""".SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Refused. Standard error has the code, the cause and what to do.
.TP
.B 2
Wrong usage.
.TP
.B 3
The queue manager is not reachable.
.SH ENVIRONMENT
.TP
.B POSTHOUSE_HOME
The home of the queue manager, where \fB\-\-home\fP is not given.
.TP
.B POSTHOUSE_TOKEN_FILE
The file with the token, where \fB\-\-token\-file\fP is not given.
.TP
.B SSL_CERT_FILE
A PEM file with the certificate that \fB\-\-url https://...\fP trusts.
.SH FILES
.TP
.I ~/.local/share/posthouse
The home where none is named: store, settings, control socket, logs.
.TP
.I posthouse.toml
The settings, in the home.
.SH SEE ALSO
The documentation: \fBmake site\fP in a checkout builds it.
"""


def man_page() -> str:
    """The whole page, as roff."""
    found = sorted(commands(program(), "posthouse"))
    options = {one.name: one for _, command in found for one in command.params}
    lines = [_TOP.format(version=__version__), ".SH COMMON OPTIONS\n"]
    lines.append("Commands that talk to a queue manager have these options:\n")
    lines += [_option(options[name]) for name in COMMON_NAMES]
    lines.append(".SH COMMANDS\n")
    lines += [part for name, command in found for part in _command(name, command)]
    return "".join([*lines, _END])


def _command(name: str, command: Any) -> Iterator[str]:
    words, example = help_parts(command)
    yield f".SS {roff(name)}\n"
    yield _paragraphs(words)
    own = [one for one in command.params if one.name != "help" and not is_common(command, one)]
    yield from map(_option, own)
    yield ".PP\n.nf\n" + "".join(f"{roff(line)}\n" for line in example.splitlines()) + ".fi\n"


def _option(parameter: Any) -> str:
    words, meaning = option_words(parameter)
    shown = ", ".join(rf"\fB{roff(word)}\fP" for word in words)
    return f".TP\n{shown}\n{_text(meaning or 'See the text.')}\n"


def _paragraphs(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    parts = [" ".join(part) for some, part in groupby(lines, bool) if some]
    return ".PP\n".join(f"{_text(part)}\n" for part in parts)


def _text(words: str) -> str:
    """A paragraph; what stands in backquotes is bold."""
    parts = re.split(r"`([^`]*)`", " ".join(words.split()))
    shown = [rf"\fB{roff(part)}\fP" if at % 2 else roff(part) for at, part in enumerate(parts)]
    text = "".join(shown)
    return rf"\&{text}" if text.startswith((".", "'")) else text


def roff(text: str) -> str:
    """Text as roff prints it again: nothing in it is a request or an escape."""
    safe = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("^", r"\(ha")
    safe = safe.replace("`", r"\(ga").replace("~", r"\(ti").replace('"', r"\(dq")
    return rf"\&{safe}" if safe.startswith(".") else safe


if __name__ == "__main__":
    sys.stdout.write(man_page())
