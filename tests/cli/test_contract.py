"""The names that users type do not change: every command and option that was promised is there."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from rich.markup import render

from posthouse.cli.main import program
from posthouse.cli.verbs import commands

COMMON = "--home --url --token-file --json"
PROMISED = {
    "queue create": "PATH --transactional --journal --authenticated --privacy --quota "
    "--journal-quota --label --base-priority --multicast",
    "queue list": "--outgoing --system",
    "queue show": "PATH",
    "queue set": "PATH",
    "queue delete": "PATH --yes --dry-run",
    "queue purge": "PATH --yes --dry-run",
    "queue pause": "PATH",
    "queue resume": "PATH",
    "queue retry": "PATH",
    "queue grant": "PATH WHO RIGHTS",
    "queue deny": "PATH WHO RIGHTS",
    "queue revoke": "PATH WHO",
    "queue access": "PATH",
    "send": "DEST --body --body-file --lines --empty --label --app-specific --extension-file "
    "--priority --recoverable --transactional --journal --dead-letter --admin-queue --ack "
    "--response-queue --correlation --time-to-reach-queue --time-to-be-received --trace "
    "--body-type --count",
    "receive": "SRC --count --timeout --lookup-id --follow --raw --separator --format --out",
    "peek": "SRC --count --timeout --lookup-id --follow --raw --separator --format --out",
    "message move": "SRC DEST --where --lookup-id --dry-run",
    "message copy": "SRC DEST --where --lookup-id --dry-run",
    "message delete": "SRC --where --lookup-id --dry-run --yes",
    "message resend": "SRC --to --where --lookup-id --dry-run",
    "message export": "SRC FILE --where --lookup-id",
    "message import": "FILE DEST --dry-run",
    "message find": "FILTER",
    "message explain": "ID",
    "user add": "NAME --doors",
    "user passwd": "NAME",
    "user list": "",
    "user delete": "NAME --yes",
    "token create": "--user --role --queue --expires",
    "token list": "",
    "token revoke": "ID --yes",
    "transaction list": "",
    "transaction commit": "ID",
    "transaction abort": "ID",
    "peer add": "NAME",
    "peer list": "",
    "peer remove": "NAME --yes",
    "pipeline archive": "QUEUE... --lake --consume --follow --master",
    "pipeline replay": "--lake --to --from --until --where --dry-run --master",
    "pipeline deadletters": "--out --resend --master",
    "pipeline latency": "--out --master",
    "pipeline settle": "CHECKPOINT",
    "pipeline sql": "STATEMENT --lake --format --out --master",
    "pipeline run": "FILE --master",
    "offline": "",
    "online": "",
    "backup": "DIR",
}
PROGRAM = dict(commands(program(), "posthouse"))


def found(name: str) -> Any:
    """The command of these words, which may be other words for its verb."""
    command = program()
    for word in name.split():
        command = command.get_command(None, word)
        assert command is not None, name
    return command


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_name_is_there(name: str) -> None:
    command = found(name)
    words = {option for parameter in command.params for option in parameter.opts}
    words |= {parameter.metavar for parameter in command.params}
    words |= set(
        command.get_help_option_names(command.make_context(name, [], resilient_parsing=True))
    )
    assert set(f"{PROMISED[name]} {COMMON}".split()) <= words


LOCAL = {  # what they can say and where they work
    "scan": "--inventory --user --password-file --timeout --output --html --json",
    "exporter": "--inventory --user --password-file --listen --every --timeout",
    "serve": "--home --json",
    "restore": "--home --json",
    "rename": "--home --json",
    "doctor": "--home --json",
    "demo": "--home --json",
    "bench": "--home --json",
    "decode": "--json",
    "selftest": "--json",
    "completion": "",
    "config check": "--home --config --json",
    "config show": "--home --config --json",
    "context list": "--json",
    "context show": "--json",
    "context use": "",
    "context delete": "",
    "pipeline list": "--json",
    "pipeline erase": "--lake --json",
    "pipeline checkpoint show": "--json",
    "pipeline checkpoint move": "--json",
    "directory join": "--home --json",
    "directory schema": "",
    "help": "",
    "version": "",
}


def options(name: str) -> set[str]:
    return {option for parameter in PROGRAM[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", LOCAL)
def test_commands_that_talk_to_nobody_are_there(name: str) -> None:
    assert set(LOCAL[name].split()) <= options(f"posthouse {name}")


def test_all_others_talk_to_a_queue_manager() -> None:
    local = {name for name in PROGRAM if "--url" not in options(name)}
    assert local == {f"posthouse {name}" for name in LOCAL}


@pytest.mark.parametrize("name", PROGRAM)
def test_help_shows_every_word_it_has(name: str) -> None:
    texts = [PROGRAM[name].help, *(one.help for one in PROGRAM[name].params)]
    for text in filter(None, texts):
        assert render(text).plain == text, "[words] in brackets are markup and vanish"


@pytest.mark.parametrize("name", PROGRAM)
def test_arguments_are_shown_as_they_are_typed(name: str) -> None:
    """Typer shows `{PATH}` and `<full_name>`, which are Python's words."""
    command = PROGRAM[name]
    context = typer.Context(command)
    pieces = command.collect_usage_pieces(context)
    assert [piece for piece in pieces if "{" in piece] == []
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    for one in arguments:
        shown = one.type.get_metavar(param=one, ctx=context)
        assert shown is not None, f"{one.metavar} is shown with <{one.type.name}>"
