"""docs/commands.md from the program's own help: `python -m posthouse.cli.commands_page`."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from typing import Any

from posthouse.cli.command import COMMON_NAMES
from posthouse.cli.durations import shown
from posthouse.cli.main import program
from posthouse.cli.verbs import commands

_TOP = """# The `posthouse` program

Every command explains itself with `--help` and an example. Tables and progress are for people;
`--json` prints one JSON value a line for machines. Text that came from elsewhere (labels, names,
bodies) is printed with control characters escaped, so that no message can steer your terminal.

| Exit code | Means |
|---|---|
| 0 | done |
| 1 | refused; standard error has the code, the cause and what to do |
| 2 | wrong usage |
| 3 | not reachable |
| 4 | nothing there: no message came in time, or the message that was named is not in the queue |

A refusal reads like `MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003): ...`. With `--json` every line on
standard error is JSON, too. A command that failed ends with `{{"error": {{"name": ..., "code":
..., "hex": ..., "cause": ..., "remedy": ..., "hints": [...], "exit_code": ...}}}}`; other lines are
`{{"note": ...}}`.
`name` and `code` are those of MSMQ for what the queue manager refuses; `hex` is the code as in
`0xC00E0003`. Elsewhere both are null and `name` is `WRONG_USAGE`, `NOT_REACHABLE`, `CANCELLED`,
`INPUT_OUTPUT`, `NOT_STARTED` or a similar word.

Commands that talk to a queue manager have these options too:

| Option | Meaning |
|---|---|
{common}

`--url https://...` trusts the authorities of the system; `SSL_CERT_FILE` names a PEM file with
another authority, or with the certificate of the queue manager itself.

The others are local: `serve` is a queue manager itself (its `--json` prints
the line of the ready file), `restore` and `doctor` work on a home that no other has open, `decode`
on files, `selftest` in memory, `bench` and `demo` in directories of their own, `completion` prints
a script, `pipeline list` a list, `pipeline erase` works on the files of a lake, and `pipeline
checkpoint show` and `move` on those of a checkpoint.

A bare name is a private queue of the queue manager: `posthouse send orders`. Other queues are named
by path names (`.\\private$\\orders`, `HOST\\private$\\orders`,
`.\\private$\\orders;poison`) or format names (`DIRECT=OS:...`, `DIRECT=TCP:...`, `PRIVATE=...`,
`PUBLIC=...`). Forward slashes do for the backslashes of path names, which spares quoting them
twice: `'./private$/orders'`. The journal of a queue is `PATH;journal`; system queues are
`./system$;journal`, `./system$;deadletter` and `./system$;deadxact`.

The verbs are the same for every noun: `create`, `list`, `show`, `set`, `delete`. Other words for
them are understood: `ls`, `rm`, `info`, `add`, `remove`. Durations are written `500ms`, `5s`,
`10m`, `12h`, `30d` or `2w`; a bare number is seconds.

Commands that destroy something ask on a terminal (`--yes` answers) and act at once without one.

`posthouse help COMMAND` and `posthouse COMMAND --help` print the help of a command, `posthouse
--version` the version. `posthouse completion bash` prints what a shell needs to complete all this,
queue names included.

## Filters

`--where` and `message find` take a filter: comparisons of fields of the message JSON, joined by
`and`, `or`, `not` and brackets, such as `priority >= 5 and label ~ "order"`. `~` is for texts that
contain another one, whatever the letter case, `!~` for those that do not; the others are `=`, `!=`,
`<`, `<=`, `>`, `>=`. Times are written as in `arrived_time < "2026-01-31T12:00:00Z"`, flags alone
as in `not authenticated`. Filters also look into messages, by `text`, `format`, `message_type`,
`exception_type`, `failed_queue`, `header["NAME"]` and others ([formats.md](formats.md)).

## Exported messages

`message export` writes one message a line, with the fields of the message JSON: `id`, `label`,
`body` and `extension` in base64, and so on. `message import` sends all that a sender sets: body and
its type, label, priority, delivery, acknowledgments, journaling, admin and response queue,
correlation, extension, times to live. What the queue manager itself sets is new:
identifier, class, times, sender, lookup id. Other fields are passed over, but a field that looks
like a misspelt one is refused.

## Messages in files

`posthouse receive SRC --out DIR` writes two files for each message: `NUMBER-LOOKUPID.body`, the
body byte for byte, and `NUMBER-LOOKUPID.json`, the message JSON with `body` and `body_text` null
and the name of the other file in `body_file`. Numbers go on from those in the folder, so names
sort in the order in which messages were written, and no file is overwritten. A message leaves its
queue after both files and the folder are synced. A crash in between leaves the files and the
message in its queue, never neither; a body without its JSON file is unfinished. `posthouse
message import DIR DEST` sends the messages of such a folder.

This page is made from the program's help.
"""


def commands_page() -> str:
    """The whole page."""
    found = sorted(commands(program(), "posthouse"))
    options = {name: one for _, command in found for one in command.params for name in [one.name]}
    common = "\n".join(_row(options[name]) for name in COMMON_NAMES)
    sections = [_section(name, command) for name, command in found]
    return _TOP.format(common=common) + "".join(sections)


def example(command: Any) -> str:
    """The example in a command's help."""
    return help_parts(command)[1]


def help_parts(command: Any) -> tuple[str, str]:
    """The help of a command: its words, and its example."""
    words, *examples = inspect.cleandoc(command.help or "").split("Example: ")
    return words.strip(), "\n".join(example.strip() for example in examples)


def _section(name: str, command: Any) -> str:
    own = [one for one in command.params if one.name != "help" and not is_common(command, one)]
    words, example = help_parts(command)
    text = "\n".join(_wrapped(line) for line in words.splitlines())
    lines = ["", f"## {name}", "", text, "", "```sh", example, "```"]
    if own:
        lines += ["", "| Option | Meaning |", "|---|---|", *map(_row, own)]
    return "\n".join([*lines, ""])


def _wrapped(line: str) -> str:
    return textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False)


def is_common(command: Any, parameter: Any) -> bool:
    """Whether it is one of the options that the top of the page explains."""
    names = {one.name for one in command.params}
    return parameter.name in COMMON_NAMES and names >= set(COMMON_NAMES)


def option_words(parameter: Any) -> tuple[list[str], str]:
    """How an argument or option is written, and what it means."""
    if parameter.param_type_name == "argument":
        return [parameter.metavar or parameter.name.upper()], parameter.help or ""
    words = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    return [f"{word}{value}" for word in words], f"{parameter.help or ''}{_default(parameter)}"


def _row(parameter: Any) -> str:
    words, meaning = option_words(parameter)
    written = ", ".join(f"`{word}`".replace("|", "\\|") for word in words)
    return f"| {written} | {_escaped(meaning)} |"


def _default(parameter: Any) -> str:
    default = parameter.default
    if default in (None, "", False):
        return ""
    if isinstance(default, float):
        return f" Default: {shown(default)}."
    here = str(default) == "."
    return f" Default: {'this folder' if here else getattr(default, 'value', default)}."


def _escaped(text: str) -> str:
    return re.sub(r"([|<>])", r"\\\1", text)


if __name__ == "__main__":
    sys.stdout.write(commands_page())
