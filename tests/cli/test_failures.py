"""`posthouse failures` and `posthouse message return`."""

from __future__ import annotations

import re
import shlex
import signal
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Posthouse
from tests.support.failed_messages import failed

ERROR, ORDERS = "./private$/error", "./private$/orders"


@pytest.fixture(autouse=True)
def queues(ph: Posthouse) -> None:
    for name in (ERROR, ORDERS):
        ph("queue", "create", name, "--transactional")
        ph("queue", "purge", name)


Fail = Callable[[str, str], None]


@pytest.fixture
def fail(ph: Posthouse, tmp_path: Path) -> Fail:
    """Puts a message into the error queue."""

    def send(body: str, extension: str) -> None:
        file = tmp_path / "extension"
        file.write_bytes(b64decode(extension))
        sent = ph("send", ERROR, "--body", body, "--transactional", "--extension-file", file)
        assert sent.code == 0, sent.err

    return send


def texts(ph: Posthouse, queue: str) -> list[str]:
    return [line["body_text"] for line in ph("peek", queue, "--count", "999", "--json").lines]


def test_groups_are_shown_and_returned_by_their_keys(ph: Posthouse, fail: Fail) -> None:
    fail("a", failed())
    fail("b", failed(cause="no \x1b[2Jmoney"))
    fail("c", failed())
    table = ph("failures", ERROR).out
    assert "System.InvalidOperationException: no stock" in table
    assert "Shop.Stock.Run(Int32 x)" in table
    assert "\x1b" not in table
    first, second = ph("failures", ERROR, "--json").lines
    assert (first["count"], second["count"]) == (2, 1)
    assert first["key"] in table
    dry = ph("message", "return", ERROR, "--group", first["key"], "--dry-run")
    assert dry.code == 0
    assert "ALPHA\\private$\\orders" in dry.out
    assert "Found 2 messages. Nothing was changed." in dry.out
    done = ph("message", "return", ERROR, "--group", first["key"])
    assert (done.code, done.out.splitlines()[-1]) == (0, "Returned 2 messages.")
    assert (texts(ph, ERROR), texts(ph, ORDERS)) == (["b"], ["a", "c"])
    rest = ph("message", "return", ERROR, "--where", 'exception_message ~ "money"', "--json").value
    assert (rest["done"], rest["next"]) == (1, None)


def test_what_cannot_go_is_listed_and_the_exit_code_is_1(ph: Posthouse, fail: Fail) -> None:
    fail("a", failed("gone@ALPHA"))
    fail("b", failed())
    for options in (("--dry-run",), ()):
        result = ph("message", "return", ERROR, *options)
        assert result.code == 1
        assert "MQ_ERROR_QUEUE_NOT_FOUND" in result.out
        assert "1 message " in result.err
    assert (texts(ph, ERROR), texts(ph, ORDERS)) == (["a"], ["b"])
    moved = ph("message", "return", ERROR, "--to", ORDERS)
    assert (moved.code, texts(ph, ORDERS)) == (0, ["b", "a"])
    assert ph("failures", ERROR, "--json").lines == []


def test_by_lookup_id(ph: Posthouse, fail: Fail) -> None:
    fail("a", failed())
    fail("b", failed())
    _, last = ph("peek", ERROR, "--count", "9", "--json").lines
    assert ph("message", "return", ERROR, "--lookup-id", str(last["lookup_id"])).code == 0
    gone = ph("message", "return", ERROR, "--lookup-id", str(last["lookup_id"]))
    assert (gone.code, texts(ph, ERROR)) == (1, ["a"])
    assert "not in the queue" in gone.err


@pytest.mark.parametrize(
    "options",
    [("--group", "none"), ("--group", "x" * 12), ("--lookup-id", "1", "--where", "priority < 8")],
)
def test_wrong_usage(ph: Posthouse, options: tuple[str, ...]) -> None:
    assert ph("message", "return", ERROR, *options).code == 2


def test_the_commands_of_the_page_work(ph: Posthouse, fail: Fail) -> None:
    fail("a", failed())
    page = Path(__file__).parents[2] / "docs" / "failures.md"
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line]
    assert len(lines) > 5
    ph("send", ORDERS, "--transactional", "--body", "x")
    ph("message", "move", ORDERS, f"{ORDERS};poison")
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        done = ph(*words)
        assert (program, done.code) == ("posthouse", 0), (line, done.err)
    assert texts(ph, ORDERS) == ["a", "x"]


def test_a_poison_policy_is_shown(ph: Posthouse) -> None:
    name = "./private$/policy"
    ph(
        "queue",
        "create",
        name,
        "--transactional",
        "--max-aborts",
        "5",
        "--retry-delays",
        "1, 10s,1m",
    )
    shown = ph("queue", "show", name)
    assert "after 5 aborts to ;poison; next try after 1s, 10s, 1m" in shown.out
    changed = ph(
        "queue", "set", name, "--poison-queue", "error", "--retry-delays", "", "--json"
    ).value
    assert (changed["poison_queue"], changed["retry_delays_s"]) == (r".\private$\error", [])
    assert r"after 5 aborts to .\private$\error" in ph("queue", "show", name).out
    ph("queue", "set", name, "--max-aborts", "0")
    assert "poison" not in ph("queue", "show", name).out
    for delays in ("x", "1,,2", "-1", ",".join("1" * 17), "2w"):
        assert ph("queue", "set", name, f"--retry-delays={delays}").code == 2


def test_a_return_asks_on_a_terminal(ph: Posthouse, fail: Fail) -> None:
    """As a purge does; without a terminal, and with --yes, it acts at once."""
    for body in ("a", "b"):
        fail(body, failed())
    fail("c", failed("gone@ALPHA"))
    words = ("message", "return", ERROR)
    refused = ph(*words, stdin=b"n\n", terminal=True)
    assert refused.code == 1
    assert f"Return 2 messages of {ERROR} to ALPHA\\private$\\orders (2)?" in refused.err
    assert (texts(ph, ERROR), texts(ph, ORDERS)) == (["a", "b", "c"], [])
    dry = ph(*words, "--dry-run", terminal=True)
    assert "[y/N]" not in dry.err
    agreed = ph(*words, "--where", 'body_text = "a"', stdin=b"y\n", terminal=True)
    assert "Return 1 message of" in agreed.err
    assert (agreed.code, texts(ph, ORDERS)) == (0, ["a"])
    done = ph(
        *words, "--yes", "--group", ph("failures", ERROR, "--json").lines[0]["key"], terminal=True
    )
    assert "[y/N]" not in done.err
    assert len(texts(ph, ERROR)) + len(texts(ph, ORDERS)) == 3


def test_a_stop_says_how_many_were_returned(
    ph: Posthouse, fail: Fail, monkeypatch: pytest.MonkeyPatch, usual_interrupt: None
) -> None:
    @contextmanager
    def bar(what: str, total: int, *, quiet: bool = False) -> Iterator[Callable[..., None]]:
        yield lambda done, in_all: signal.raise_signal(signal.SIGINT)

    fail("a", failed())
    monkeypatch.setattr("posthouse.cli.messages.failures.bar", bar)
    done = ph("message", "return", ERROR)
    assert done.code == 130
    assert done.err == "Returned 1 message or more. Run it again to continue.\n"
