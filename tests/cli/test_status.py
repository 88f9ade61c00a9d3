"""`posthouse status`, `books`, `online` and `offline`."""

from __future__ import annotations

from tests.cli.conftest import Posthouse


def test_the_queue_manager_in_one_look(ph: Posthouse) -> None:
    assert ph("status", "--json").value["name"] == "ALPHA"
    ph("receive", "./private$/nowhere")
    shown = ph("status").out
    assert "name   ALPHA\n" in shown
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in shown


def test_a_check_ends_with_1_when_something_is_wrong(ph: Posthouse) -> None:
    assert ph("status", "--check").code == 0
    ph("queue", "create", "./private$/lost")
    ph("send", "./private$/lost", "--body", "x", "--dead-letter")
    ph("queue", "purge", "./private$/lost")
    checked = ph("status", "--check")
    assert checked.code == 1
    first, second, third, *_ = checked.out.splitlines()
    assert (first, second) == ("name   ALPHA", "state  ready, 1 problem")
    place = "ALPHA\\system$;deadletter"
    assert third == f"!  1 dead letter: 1 in {place}. posthouse failures '{place}'"
    assert ph("status").code == 0
    assert ph("status", "--check", "--json").code == 1
    ph("queue", "purge", "./system$;deadletter")
    ph("queue", "delete", "./private$/lost")


def test_offline_and_online_again(ph: Posthouse) -> None:
    assert ph("offline").out == "The queue manager is offline.\n"
    assert not ph("status", "--json").value["online"]
    assert ph("online", "--json").value == {"online": True}
    assert ph("online").out == "The queue manager is online.\n"


def test_the_books_balance(ph: Posthouse) -> None:
    ph("queue", "create", "./private$/orders")
    ph("send", "./private$/orders", "--body", "x", "--count", "3")
    ph("receive", "./private$/orders")
    books = ph("books", "--json")
    assert books.code == 0
    (line,) = [line for line in books.value["books"] if line["queue"] == "ALPHA\\private$\\orders"]
    assert (line["accepted"], line["waiting"], line["received"]) == (3, 2, 1)
    assert "ALPHA\\private$\\orders" in ph("books").out
