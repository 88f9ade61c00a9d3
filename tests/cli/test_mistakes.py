"""Mistakes that users make: each is answered with its cause and with what helps."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from posthouse.cli import main
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving, serving
from tests.support.tls_files import CERTIFICATE, KEY, expired_tls

ORDERS, BOOKED = "./private$/orders", "./private$/booked"


@pytest.fixture(autouse=True)
def queues(ph: Posthouse) -> None:
    ph("queue", "create", ORDERS)
    ph("queue", "create", BOOKED, "--transactional")


# -- addresses


@contextmanager
def another_service(greeting: bytes) -> Iterator[str]:
    """Says this to whoever connects, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("greeting", "told"),
    [
        (b"", "closed the connection without an answer. If it has a certificate, write https://. "),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "is another service, not the admin endpoint"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "is another service, not the admin endpoint"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS. Write https:// instead of http://."),
    ],
)
def test_another_service_at_the_address(posthouse: Posthouse, greeting: bytes, told: str) -> None:
    with another_service(greeting) as url:
        said = posthouse("status", "--url", url)
    assert said.code == 3
    assert told in said.err


def test_a_certificate_that_has_expired_is_not_to_be_trusted_but_renewed(
    posthouse: Posthouse, tmp_path: Path
) -> None:
    tls, authority = expired_tls(tmp_path)
    with serving(tmp_path / "home", tls) as server:
        said = posthouse("status", "--url", server.url, "--ca-file", authority)
        assert said.code == 3
        assert "certificate has expired. Renew it where the queue manager runs" in said.err
        assert "--ca-file" not in said.err
        said = posthouse("status", "--url", server.url.replace("https", "http"))
        assert said.code == 3
        assert "If it has a certificate, write https://" in said.err


def test_a_host_that_is_not_found_and_a_port_that_is_closed(posthouse: Posthouse) -> None:
    said = posthouse("status", "--url", "http://nosuchhost.invalid:8816")
    assert said.code == 3
    assert "the host nosuchhost.invalid is not found: " in said.err
    assert "posthouse serve" not in said.err
    said = posthouse("status", "--url", "http://127.0.0.1:1")
    assert said.code == 3
    assert "Connection refused. Check that `posthouse serve` runs there" in said.err
    assert "[admin] listen" in said.err


def test_tls_where_there_is_none(posthouse: Posthouse, server: Serving) -> None:
    said = posthouse("status", "--url", server.url.replace("http:", "https:"))
    assert said.code == 3
    assert server.admin.traffic.requests["GET", 400] == 1, "refused before its time is over"
    assert "does not answer with TLS: " in said.err
    assert "Write http:// if it has no certificate" in said.err
    assert "tls=" not in said.err


def test_a_certificate_that_is_not_trusted(
    posthouse: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, KEY)
    with serving(tmp_path / "home", context) as secured:
        token = tmp_path / "token"
        token.write_text(posthouse("token", "create", "--home", secured.home).out)
        words = ("status", "--url", secured.url, "--token-file", token, "--json")
        said = posthouse(*words)
        assert said.code == 3
        assert " is not trusted: " in said.err
        assert "Give --ca-file with a PEM file" in said.err
        assert "tls=" not in said.err
        assert posthouse(*words, "--ca-file", CERTIFICATE).code == 0, "the remedy helps"
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert posthouse(*words).code == 0


def test_no_token_and_a_role_that_is_too_low(
    ph: Posthouse, server: Serving, tmp_path: Path
) -> None:
    said = ph("status", "--url", server.url)
    assert said.code == 1
    assert "`posthouse token create > FILE`" in said.err
    token = tmp_path / "token"
    token.write_text(ph("token", "create", "--role", "operate").out)
    said = ph("user", "list", "--url", server.url, "--token-file", token)
    assert said.code == 1
    assert "`posthouse token create --user NAME --role administer > FILE`" in said.err
    assert "queue access" not in said.err


@contextmanager
def somebody_else() -> Iterator[None]:
    """Runs as a user who owns nothing here; a plain user has given up the home before."""
    if os.geteuid() != 0:
        yield
        return
    for module in ("ctypes", "posthouse.cli.serve", "posthouse.runtime.endpoints"):
        import_module(module)  # the other user may not read them
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_home_of_another_user(posthouse: Posthouse, tmp_path: Path) -> None:
    home = tmp_path / "closed" / "home"
    home.mkdir(parents=True)
    home.parent.chmod(0)
    try:
        with somebody_else():
            said = posthouse("status", "--home", home)
            served = posthouse("serve", "--home", home)
            new = posthouse("serve", "--home", home.parent / "new" / "one")
    finally:
        home.parent.chmod(0o700)
    assert said.code == 3
    assert f"{home}: Permission denied. The home belongs to another user." in said.err
    assert "--url http://127.0.0.1:8816 --token-file FILE" in said.err
    for refused in (served, new):
        assert refused.code == 1
        assert refused.err.startswith(f"Not started: {home.parent}/")
        assert "Permission denied. Run as the owner of the home, or name one of your own with" in (
            refused.err
        )


# -- names of queues


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("./private$/order", f"Did you mean '{ORDERS}'?"),
        ("ALPHA/private$/order", f"Did you mean '{ORDERS}'?"),
        ("DIRECT=OS:.\\private$\\Ordesr", f"Did you mean '{ORDERS}'?"),
        ("./orders", f"Did you mean '{ORDERS}'?"),
        ("./private", "A shell replaces $orders inside double quotes."),
        ("./private/orders", f"Private queues have a dollar sign: '{ORDERS}'."),
        ("./private$orders", f"A slash follows private$: '{ORDERS}'."),
        (
            ".private$orders",
            "A shell removes backslashes outside quotes. Write the name in single quotes: "
            f"'.\\private$\\orders' or '{ORDERS}'.",
        ),
        ("DIRECT=OS:hostprivate$orders", r"'DIRECT=OS:host\private$\orders'"),
    ],
)
def test_a_wrong_name_brings_the_right_one(ph: Posthouse, name: str, told: str) -> None:
    for words in (("peek", name), ("send", name, "--body", "x"), ("queue", "show", name)):
        said = ph(*words)
        assert said.code == 1
        assert told in said.err


def test_a_name_like_no_other_brings_no_other(ph: Posthouse) -> None:
    said = ph("peek", "./private$/zzz")
    assert said.code == 1
    assert "posthouse queue list" in said.err
    assert "Did you mean" not in said.err


def test_queues_that_one_may_not_see_are_not_suggested(
    ph: Posthouse, server: Serving, tmp_path: Path
) -> None:
    ph("user", "add", "dave", "--doors", "http", stdin=b"a long password\n")
    token = tmp_path / "dave"
    token.write_text(ph("token", "create", "--user", "dave").out)
    url = ("--url", server.url, "--token-file", token)
    said = ph("peek", "./private$/order", *url)
    assert said.code == 1
    assert "Did you mean" not in said.err
    listed = ph("queue", "list", *url)
    assert (listed.code, listed.out) == (0, "")
    assert "There is no queue that you may list." in listed.err
    assert "`posthouse queue grant PATH WHO get-properties`" in listed.err
    assert ph("queue", "list", *url, "--json") == (0, "", "")
    ph("queue", "grant", ORDERS, "dave", "peek")
    assert ph("queue", "list", *url) == listed
    ph("queue", "grant", ORDERS, "dave", "get-properties")
    assert "orders" in ph("queue", "list", *url).out
    assert f"Did you mean '{ORDERS}'?" in ph("peek", "./private$/order", *url).err
    ph("user", "delete", "dave", "--yes")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my queue", "'my queue' must not contain a space (character 3)"),
        ("orders ", "must not contain a space (character 7)"),
        ("ord*", "'ord*' is a pattern, and one queue is to be named. Name one queue."),
    ],
)
def test_a_bare_name_that_cannot_be(ph: Posthouse, name: str, told: str) -> None:
    for words in (("queue", "create", name), ("peek", name), ("send", name, "--body", "x")):
        said = ph(*words)
        assert (said.code, told in said.err) == (1, True), said.err


def test_a_name_may_be_pasted_from_dotnet(ph: Posthouse) -> None:
    for name in ("FormatName:DIRECT=OS:.\\private$\\orders", "DIRECT=OS:./private$/orders"):
        assert ph("send", name, "--body", "pasted", "--label", "pasted").code == 0
        said = ph("receive", name, "--count", "1", "--json")
        assert said.value["label"] == "pasted"


def test_a_send_to_a_transactional_queue_here_is_a_transaction(
    ph: Posthouse, server: Serving, tmp_path: Path
) -> None:
    assert ph("send", BOOKED, "--body", "x").code == 0
    assert ph("send", BOOKED, "--lines", "-", stdin=b"1\n2\n").code == 0
    received = ph("receive", BOOKED, "--count", "9", "--json").lines
    assert [one["delivery"] for one in received] == ["transactional"] * 3
    ph("user", "add", "erin", "--doors", "http", stdin=b"a long password\n")
    token = tmp_path / "erin"
    token.write_text(ph("token", "create", "--user", "erin", "--role", "operate").out)
    url = ("--url", server.url, "--token-file", token)
    said = ph("send", BOOKED, "--body", "x", *url)
    assert (said.code, "`posthouse send --transactional`" in said.err) == (1, True), said.err
    assert ph("send", BOOKED, "--body", "x", "--transactional", *url).code == 0
    ph("queue", "purge", BOOKED, "--yes")
    ph("user", "delete", "erin", "--yes")


def test_a_transaction_too_many_names_the_option(ph: Posthouse) -> None:
    said = ph("send", ORDERS, "--body", "x", "--transactional")
    assert "leave out --transactional" in said.err


# -- things that are not there


def test_rights_are_listed(ph: Posthouse) -> None:
    said = ph("queue", "grant", ORDERS, "everyone", "read")
    assert said.code == 2
    assert "'read' is not a right. There are full, receive, peek, purge, send, " in said.err
    assert (
        "Did you mean receive? There are full, "
        in ph("queue", "grant", ORDERS, "everyone", "recieve").err
    )


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("group", "show", ORDERS, "none"), r"posthouse group list 'ALPHA\private$\orders'"),
        (("cert", "export", "-"), "posthouse cert create"),
        (("user", "passwd", "nobody"), "posthouse user create NAME"),
        (("token", "revoke", "0123456789abcdef", "--yes"), "posthouse token list"),
        (("peer", "remove", "NOWHERE", "--yes"), "posthouse peer list"),
        (("cert", "remove", "0123456789abcdef0123456789abcdef", "--yes"), "posthouse cert list"),
        (("transaction", "abort", "00112233-4455-6677-8899-aabbccddeeff"), "transaction list"),
        (("job", "submit", "NONE", "/etc/hostname"), "posthouse job queue create NAME"),
        (("job", "server", "run", "X", "--queue", "NONE", "--", "true"), "job queue create NAME"),
    ],
)
def test_what_is_not_there_brings_the_command(
    ph: Posthouse, words: tuple[str, ...], command: str
) -> None:
    said = ph(*words, stdin=b"a long password\n")
    assert said.code == 1
    assert command in said.err


def test_a_job_that_is_not_there_brings_the_list(ph: Posthouse) -> None:
    ph("job", "queue", "create", "EMPTY")
    said = ph("job", "show", "EMPTY", "99")
    assert said.code == 1
    assert "List the jobs with `posthouse job list QUEUE`" in said.err


def test_a_public_queue_made_by_its_short_name_is_told_as_public(ph: Posthouse) -> None:
    said = ph("queue", "create", "./public")
    assert said.code == 0
    assert "ALPHA\\public  PUBLIC=" in said.out
    assert "This is a public queue" in said.err
    assert "public" not in ph("queue", "create", "./private$/local").err
    ph("queue", "delete", "./public", "--yes")


def test_choices_are_listed_without_escapes(posthouse: Posthouse) -> None:
    said = posthouse("completion")
    assert said.code == main.WRONG_USAGE
    assert "  bash" in said.err.replace(",", "")
    assert "\\t" not in said.err


def test_a_job_server_that_is_not_enrolled(ph: Posthouse) -> None:
    ph("job", "queue", "create", "REPORTS")
    run = ("job", "server", "run", "COUNTER", "--queue", "REPORTS", "--jobs", "1", "--", "true")
    said = ph(*run)
    assert said.code == 1
    assert "Start it with --enrol, which creates the server's object" in said.err
    ph("bindery", "object", "create", "COUNTER", "--type", "job_server")
    said = ph(*run)
    assert said.code == 1
    assert "Start it with --enrol, or let it service the queue: `posthouse job queue allow" in (
        said.err
    )


@pytest.mark.parametrize("verb", ["move", "copy", "delete", "resend"])
def test_a_message_that_is_gone_is_an_error(ph: Posthouse, verb: str) -> None:
    more = {"move": [f"{ORDERS};poison"], "copy": [ORDERS]}.get(verb, [])
    said = ph("message", verb, ORDERS, *more, "--lookup-id", "999999")
    assert said.code == 4
    assert "1 of the messages are not in the queue" in said.err
    said = ph("message", verb, ORDERS, *more, "--lookup-id", "999999", "--json")
    assert (said.code, said.value["gone"]) == (4, 1)
    assert ph("message", verb, ORDERS, *more, "--where", "label = 'none'").code == 0


def test_an_import_of_something_else_shows_what_a_line_looks_like(ph: Posthouse) -> None:
    said = ph("message", "import", "-", ORDERS, stdin=b"<order/>\n")
    assert said.code == 1
    assert "line 1: JSON is malformed" in said.err
    assert "`posthouse send QUEUE --lines FILE`" in said.err
    assert "limits of the property" not in said.err
    said = ph("message", "import", "-", ORDERS, stdin=b'{"priority": 9}\n')
    assert "line 1: Expected `int` <= 7" in said.err
    assert "Correct that field" in said.err


def test_a_verb_alone_brings_its_nouns(posthouse: Posthouse) -> None:
    said = posthouse("list")
    assert said.code == main.WRONG_USAGE
    assert "Commands of that name: " in said.err
    assert "posthouse queue list" in said.err
    assert "Commands of that name" not in posthouse("frobnicate").err


# -- values that no command can use


@pytest.mark.parametrize("words", [("status", "--home"), ("serve", "--home"), ("decode",)])
def test_an_empty_path_is_not_the_current_folder(
    posthouse: Posthouse, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that is not set made the current folder the home, and closed it to others."""
    monkeypatch.chdir(tmp_path)
    said = posthouse(*words, "")
    assert (said.code, list(tmp_path.iterdir())) == (2, [])
    assert "the path is empty" in said.err


@pytest.mark.parametrize("words", [("send", ORDERS, "--body", "x"), ("peek", ORDERS)])
def test_a_number_that_no_loop_counts_to_is_refused(ph: Posthouse, words: tuple[str, ...]) -> None:
    said = ph(*words, "--count", "9" * 20)
    assert (said.code, "the largest value is" in said.err) == (2, True)


def test_acknowledgments_need_a_queue_to_go_to(ph: Posthouse) -> None:
    said = ph("send", ORDERS, "--body", "x", "--ack", "pos-arrival")
    assert (said.code, "--ack needs --admin-queue" in said.err) == (2, True)


def test_a_system_queue_without_a_computer(ph: Posthouse) -> None:
    assert "'./system$;deadletter'" in ph("peek", "system$;deadletter").err


def test_rights_of_a_token_are_listed(ph: Posthouse) -> None:
    said = ph("token", "create", "--queue", "orders=read")
    assert (said.code, "There are full, receive, peek" in said.err) == (1, True)


def test_the_status_of_a_job_queue_may_be_open(ph: Posthouse) -> None:
    assert "There are open, " in ph("job", "queue", "set", "REPORTS", "--status", "closed").err
    said = ph("job", "queue", "set", "REPORTS", "--status", "open,no_service")
    assert (said.code, "give open alone" in said.err) == (2, True), "it was not opened"


def test_moves_that_cannot_be_name_what_can(ph: Posthouse) -> None:
    ph("queue", "purge", ORDERS, "--yes")
    ph("send", ORDERS, "--body", "x")
    assert "Name another queue to move it to" in ph("message", "move", ORDERS, ORDERS).err
    said = ph("message", "move", ORDERS, BOOKED)
    assert "`posthouse message resend SRC --to DEST`" in said.err
    assert ph("message", "resend", ORDERS, "--to", BOOKED).out == "Resent 1 message.\n"


def test_dead_letters_in_two_queues_are_shown_by_one_command(ph: Posthouse) -> None:
    for queue, how in ((ORDERS, ()), (BOOKED, ("--transactional",))):
        ph("send", queue, "--body", "x", "--dead-letter", "--time-to-be-received", "0", *how)
        ph("receive", queue)
    assert "2 in ALPHA" not in ph("status").out
    assert "posthouse deadletters" in ph("status").out
