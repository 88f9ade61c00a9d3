"""Exit codes and error lines of the `posthouse` program."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from posthouse import __version__
from posthouse.cli import main
from posthouse.cli.program import NOUNS
from posthouse.model.errors import MalformedPacket, QueueNotFound
from posthouse.model.interpreter import describe
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving


def raising(error: BaseException) -> int:
    """Run a program whose only command raises."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def fail() -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "program", lambda word: typer.main.get_command(app))
        return main.run([])


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == main.DONE
    assert capsys.readouterr().out == f"posthouse {__version__} ({describe()})\n"


def test_there_is_one_version() -> None:
    """Of the package, the program, the man page, the changelog and the first page."""
    root = Path(__file__).parent.parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    release = __version__.partition(".dev")[0]
    manual = (root / "src/posthouse/cli/posthouse.1").read_text(encoding="utf-8")
    heading = re.search(r"^## (.*)$", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert project["version"] == __version__
    assert f'"posthouse {__version__}"' in manual.splitlines()[0]
    assert heading is not None
    assert heading[1] == (f"{release} (in work)" if ".dev" in __version__ else release)
    in_work = f"version {release.rpartition('.')[0]} in work"
    assert (in_work in (root / "README.md").read_text("utf-8")) is (".dev" in __version__)


def test_the_package_is_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m posthouse`."""
    monkeypatch.setattr(sys, "argv", ["posthouse", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("posthouse", run_name="__main__")
    assert end.value.code == main.DONE
    assert capsys.readouterr().out == f"posthouse {__version__} ({describe()})\n"


def shown(word: str = "") -> list[str]:
    """The commands that the help lists."""
    commands = main.program(word).commands
    return [name for name, command in commands.items() if not command.hidden]


def test_every_noun_has_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == main.DONE
    said = capsys.readouterr().out
    words = [word for commands in NOUNS.values() for word in commands]
    assert sorted(shown()) == sorted(words)
    for word in words:
        assert f" {word} " in said


def test_the_first_word_decides_what_is_loaded() -> None:
    assert shown("peek") == ["receive", "peek"]
    assert len(shown("no-such-command")) > 10


def test_an_unknown_command_is_wrong_usage() -> None:
    assert main.run(["no-such-command"]) == main.WRONG_USAGE


@pytest.mark.parametrize(
    "words",
    [
        ["\x1b[2J"],
        ["send", "x", "--\x1b[2J"],
        ["send", "x", "\x1b[2J"],
        ["send", "x", "--priority", "\x1b[2J"],
        ["queue", "\x1b[2J"],
        ["status", "--url", "\x1b[2J"],
        ["queue", "grant", "x", "y", "\x1b[2J"],
    ],
)
def test_wrong_usage_is_told_without_steering_the_terminal(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == main.WRONG_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "\x1b" not in said.err
    assert said.err


@pytest.mark.parametrize("words", [[], ["queue"]])
def test_no_command_gets_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words) == main.WRONG_USAGE
    assert "Usage: posthouse" in capsys.readouterr().out


def test_a_refusal_prints_code_cause_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = QueueNotFound("there is no queue \x1b[2Jorders", "Create it first.")
    assert raising(refusal) == main.REFUSED
    assert capsys.readouterr().err == (
        "MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003): there is no queue \\x1b[2Jorders."
        " Create it first.\n"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MalformedPacket("no packet"), main.REFUSED),
        (ConnectionRefusedError(111, "refused"), main.NOT_REACHABLE),
        (TimeoutError("no answer"), main.NOT_REACHABLE),
        (FileNotFoundError(2, "No such file", "orders.bin"), main.WRONG_USAGE),
        (PermissionError(13, "Permission denied", "orders.bin"), main.REFUSED),
        (typer.Exit(3), main.NOT_REACHABLE),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), main.WRONG_USAGE),
    ],
)
def test_each_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert raising(error) == code


def test_our_own_mistakes_are_not_hidden() -> None:
    with pytest.raises(AssertionError):
        raising(AssertionError("ours"))


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "posthouse.cli.main", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"posthouse {__version__} ({describe()})\n")


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_the_version_loads_no_command(words: list[str]) -> None:
    """A shell or a script that asks for it does not wait for what it does not use."""
    code = "import sys; from posthouse.cli.main import run; run(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    version, modules = done.stdout.splitlines()
    assert version == f"posthouse {__version__} ({describe()})"
    assert {"typer", "rich", "msgspec"}.isdisjoint(modules.split())


@pytest.mark.parametrize("words", [["queue", "list"], ["receive", "q"], ["message", "show", "1"]])
def test_a_command_of_a_client_does_not_load_the_engine(words: list[str], tmp_path: Path) -> None:
    """It takes a third of a second, which everybody would wait for."""
    code = "import sys; from posthouse.cli.main import run; run(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--home", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    modules = done.stdout.split()
    assert "posthouse.client.connect" in modules, done.stderr
    assert "posthouse.engine.manager" not in modules


@pytest.mark.parametrize("words", [["queue", "create"], ["send"], ["directory", "link", "list"]])
def test_help_is_a_command_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["help", *words]) == main.DONE
    assert f"Usage: posthouse {' '.join(words)}" in capsys.readouterr().out


def test_help_of_nothing_is_that_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["help"]) == main.DONE
    assert "Usage: posthouse [OPTIONS] COMMAND" in capsys.readouterr().out


def test_help_of_a_word_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["help", "queue", "creat"]) == main.WRONG_USAGE
    assert "Did you mean 'create'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("--home X status", "status --home X"),
        ("--home=X --json queue list --system", "queue list --system --home=X --json"),
        ("--url U --token-file F send q --body -- x", "send q --body --url U --token-file F -- x"),
        ("--context c job server run q -- ls --home", "job server run q --context c -- ls --home"),
        ("--home X status --home Y", "status --home Y"),
        ("--home X --json status --home=Y", "status --home=Y --json"),
        ("--home", "--home"),
        ("--home X", "--home X"),
        ("--ca-file", "--ca-file"),
        ("--nothing status", "--nothing status"),
        ("--help", "--help"),
        ("status --home X", "status --home X"),
        ("", ""),
    ],
)
def test_options_of_the_connection_may_stand_before_the_command(typed: str, run: str) -> None:
    assert main.command_first(typed.split()) == run.split()


def test_a_command_after_its_options_runs(posthouse: Posthouse, server: Serving) -> None:
    said = posthouse("--home", server.home, "--json", "status")
    assert (said.code, said.value["name"]) == (0, "ALPHA")
    said = posthouse("--home", server.home, "--nothing", "status")
    assert (said.code, "No such option: --nothing" in said.err) == (2, True)
    said = posthouse("--home", server.home / "none", "--json", "status")
    assert said.code == 3
    assert '"error"' in said.err
