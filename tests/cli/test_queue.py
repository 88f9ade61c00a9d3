"""`posthouse queue`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Posthouse

ORDERS = "./private$/orders"


@pytest.fixture(autouse=True)
def orders(ph: Posthouse) -> None:
    ph("queue", "delete", ORDERS)
    assert ph("queue", "create", ORDERS, "--label", "New orders").code == 0


def test_a_new_queue_is_named_by_path_and_format_name(ph: Posthouse) -> None:
    made = ph("queue", "create", r".\private$\other")
    assert made.out == "ALPHA\\private$\\other  DIRECT=OS:ALPHA\\private$\\other\n"
    again = ph("queue", "create", "./private$/other")
    assert again.code == 1
    assert again.err.startswith("MQ_ERROR_QUEUE_EXISTS (0xC00E0005): ")


def test_a_queue_has_the_properties_that_were_asked_for(ph: Posthouse) -> None:
    options = ["--journal", "--authenticated", "--privacy", "body", "--quota", "100"]
    options += ["--journal-quota", "50", "--base-priority", "-3"]
    options += ["--multicast", "239.1.2.3:8001", "--type", "{00112233-4455-6677-8899-AABBCCDDEEFF}"]
    queue = ph("queue", "create", "./private$/full", *options, "--json").value
    assert not queue["transactional"]
    assert queue["journal"]
    assert queue["authenticated"]
    assert (queue["privacy"], queue["quota_kib"], queue["journal_quota_kib"]) == ("body", 100, 50)
    assert (queue["base_priority"], queue["multicast"]) == (-3, "239.1.2.3:8001")
    assert queue["type_id"] == "00112233-4455-6677-8899-aabbccddeeff"
    ph("queue", "delete", "./private$/full")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--quota", "-1"],
        ["--quota", "4294967295"],
        ["--quota", "many"],
        ["--privacy", "some"],
        ["--base-priority", "40000"],
        ["--type", "no-guid"],
        ["--nonsense"],
    ],
)
def test_wrong_usage_is_told_and_changes_nothing(ph: Posthouse, wrong: list[str]) -> None:
    refused = ph("queue", "create", "./private$/wrong", *wrong)
    assert refused.code == 2
    assert refused.err
    assert ph("queue", "show", "./private$/wrong").code == 1


def test_lists_have_what_was_asked_for(ph: Posthouse) -> None:
    plain = [queue["path"] for queue in ph("queue", "list", "--json").lines]
    assert "ALPHA\\private$\\orders" in plain
    assert "ALPHA\\system$;deadletter" not in plain
    system = [queue["path"] for queue in ph("queue", "list", "--system", "--json").lines]
    assert {"ALPHA\\system$;deadletter", "ALPHA\\private$\\orders;journal"} <= set(system)
    ph("send", "DIRECT=OS:beta\\private$\\far", "--body", "x")
    outgoing = ph("queue", "list", "--outgoing")
    assert "DIRECT=OS:beta\\private$\\far" in outgoing.out
    assert "New orders" in outgoing.out


def test_an_outgoing_queue_is_paused_resumed_and_retried(ph: Posthouse) -> None:
    far = "DIRECT=OS:beta\\private$\\far"
    ph("send", far, "--body", "x")
    paused = ph("queue", "pause", far, "--json").value["state"]
    assert ph("queue", "show", far, "--json").value["state"] == paused
    assert ph("queue", "resume", far).out != f"{far}: {paused}\n"
    assert ph("queue", "show", far, "--json").value["state"] != paused
    assert ph("queue", "retry", far).code == 0
    assert ph("queue", "pause", ORDERS).code == 1


def test_sequences_are_shown_and_begun_again(ph: Posthouse) -> None:
    far = "DIRECT=OS:gamma\\private$\\far"
    for _ in range(2):
        assert ph("send", far, "--body", "x", "--transactional").code == 0
    before = ph("queue", "sequences", far, "--json").value["outgoing"]
    assert before["unacknowledged"] == 2
    assert "first unacknowledged" in ph("queue", "sequences", far).out
    looked = ph("queue", "reset-sequence", far, "--dry-run")
    assert looked.out == f"Would restart 1 sequence with 2 messages of {far}.\n"
    assert ph("queue", "sequences", far, "--json").value["outgoing"] == before
    done = ph("queue", "reset-sequence", far, "--yes", "--json").value
    assert done == {"sequences": 1, "messages": 2, "dry_run": False}
    after = ph("queue", "sequences", far, "--json").value["outgoing"]
    assert after["next"]["sequence"] != before["next"]["sequence"]
    assert "no sequences" in ph("queue", "sequences", ORDERS).out
    assert ph("queue", "reset-sequence", ORDERS, "--yes").out == (
        f"Restarted 0 sequences of {ORDERS}.\n"
    )
    assert ph("queue", "reset-sequence", ORDERS, "--source", "nonsense", "--yes").code == 2


def test_properties_change_and_others_stay(ph: Posthouse) -> None:
    changed = ph("queue", "set", ORDERS, "--quota", "7", "--journal", "--json").value
    assert (changed["quota_kib"], changed["journal"], changed["label"]) == (7, True, "New orders")
    changed = ph("queue", "set", ORDERS, "--quota", "none", "--no-journal", "--label", "").code
    shown = ph("queue", "show", ORDERS, "--json").value
    assert (shown["quota_kib"], shown["journal"], shown["label"]) == (None, False, "")
    assert ph("queue", "set", ORDERS).code == 2


def test_a_queue_is_shown_to_people(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "four")
    shown = ph("queue", "show", "DIRECT=OS:ALPHA\\private$\\orders").out
    assert "queue             ALPHA\\private$\\orders" in shown
    assert "messages          1, 0 of them locked" in shown


def test_a_subqueue_is_shown_with_the_quota_of_its_queue(ph: Posthouse) -> None:
    ph("queue", "set", ORDERS, "--quota", "1")
    ph("send", ORDERS, "--body", "x" * 300)
    assert ph("message", "move", ORDERS, f"{ORDERS};poison").code == 0
    assert "quota             that of its queue" in ph("queue", "show", f"{ORDERS};poison").out
    refused = ph("send", ORDERS, "--body", "x" * 400)
    assert "Receive or purge messages of the queue or its subqueues" in refused.err


def test_an_outgoing_queue_is_one_table(ph: Posthouse) -> None:
    """Its counts stand under its properties, in the same columns."""
    far = "DIRECT=OS:beta\\private$\\far"
    ph("send", far, "--body", "x", "--transactional")
    lines = ph("queue", "show", far).out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("next in sequence"))
    start = lines[0].index(far)
    assert {line[start - 2 : start] for line in lines[: at + 1]} == {"  "}
    (state,) = [line[start:] for line in lines if line.startswith("state ")]
    assert "_" not in state


def test_purge_counts_first_and_removes_then(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "x", "--count", "3")
    assert ph("queue", "purge", ORDERS, "--dry-run", "--json").value == {
        "messages": 3,
        "dry_run": True,
    }
    assert ph("queue", "purge", ORDERS).out == "Purged ./private$/orders with 3 messages.\n"
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 0


def test_delete_looks_only_where_told_so(ph: Posthouse) -> None:
    assert (
        ph("queue", "delete", ORDERS, "--dry-run").out
        == f"Would delete {ORDERS} with 0 messages.\n"
    )
    assert ph("queue", "show", ORDERS).code == 0
    assert ph("queue", "delete", ORDERS).code == 0
    gone = ph("queue", "show", ORDERS)
    assert gone.code == 1
    assert gone.err.startswith("MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003): ")


@pytest.mark.parametrize("verb", ["purge", "delete"])
def test_a_terminal_is_asked_before_anything_goes(ph: Posthouse, verb: str) -> None:
    ph("send", ORDERS, "--body", "x", "--count", "2")
    refused = ph("queue", verb, ORDERS, terminal=True, stdin=b"n\n")
    assert refused.code == 1
    assert "2 messages?" in refused.err
    assert "Nothing was changed." in refused.err
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 2
    assert ph("queue", verb, ORDERS, terminal=True, stdin=b"y\n").code == 0


def test_yes_answers_for_a_terminal(ph: Posthouse) -> None:
    assert ph("queue", "delete", ORDERS, "--yes", terminal=True).code == 0


def test_rights_are_given_denied_shown_and_taken_away(ph: Posthouse) -> None:
    ph("user", "add", "carol", "--no-password")
    given = ph("queue", "grant", ORDERS, "carol", "peek,send", "--json").value
    carol = [entry for entry in given["entries"] if entry["who"] == "carol"]
    assert [(entry["denied"], sorted(entry["rights"])) for entry in carol] == [
        (False, ["peek", "send"])
    ]
    denied = ph("queue", "deny", ORDERS, "anonymous", "send")
    assert "anonymous       may not  send" in denied.out
    ph("queue", "revoke", ORDERS, "carol")
    assert "carol" not in ph("queue", "access", ORDERS).out


@pytest.mark.parametrize("rights", ["", ",", "sned", "send,fly"])
def test_rights_that_do_not_exist_are_wrong_usage(ph: Posthouse, rights: str) -> None:
    refused = ph("queue", "grant", ORDERS, "everyone", rights)
    assert refused.code == 2
    if rights == "sned":
        assert "Did you mean send?" in refused.err.replace("\n", " ")


def test_somebody_unknown_gets_no_rights(ph: Posthouse) -> None:
    assert ph("queue", "grant", ORDERS, "nobody-known", "send").code == 1


def test_hostile_labels_and_names_cannot_steer_the_terminal(ph: Posthouse) -> None:
    hostile = "\x1b]0;owned\x07\x9b2J\u202e[red]x[/red]"
    ph("queue", "create", "./private$/[bold]evil", "--label", hostile)
    for words in (["list"], ["show", "./private$/[bold]evil"], ["list", "--json"]):
        said = ph("queue", *words).out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)
        assert "[bold]evil" in said
        assert "[red]x[/red]" in said
    ph("queue", "delete", "./private$/[bold]evil")


# -- which queues, which columns, in which order


@pytest.fixture
def three(ph: Posthouse) -> Iterator[None]:
    for name, count in (("sort-b", 2), ("sort-a", 1), ("sort-c", 3)):
        ph("queue", "create", name, "--label", f"number {count}")
        ph("send", name, "--body", "x", "--count", str(count))
    yield
    for name in "abc":
        ph("queue", "delete", f"sort-{name}")


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (["--sort", "messages"], [3, 2, 1]),
        (["--sort", "messages", "--reverse"], [1, 2, 3]),
        (["--sort", "queue"], [1, 2, 3]),
        (["--sort", "label", "--reverse"], [3, 2, 1]),
        (["--sort", "oldest", "--match", "SORT-A"], [1]),
        (["--sort", "queue", "--match", "sort-[bc]"], [2, 3]),
        (["--match", "nothing*"], []),
    ],
)
def test_queues_are_chosen_and_ordered(
    ph: Posthouse, options: list[str], messages: list[int]
) -> None:
    match = [] if "--match" in options else ["--match", "sort-?"]
    found = ph("queue", "list", "--json", *match, *options, "--columns", "messages").lines
    assert found == [{"messages": count} for count in messages]


@pytest.mark.usefixtures("three")
def test_columns_are_those_asked_for(ph: Posthouse) -> None:
    shown = ph("queue", "list", "--match", "sort-a", "--columns", "label,queue,quota").out
    words = ["label", "queue", "quota", "number", "1", "ALPHA\\private$\\sort-a"]
    assert shown.split() == words
    assert ph("queue", "list", "--match", "zzz").err == "No queue matches 'zzz'.\n"


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--sort", "mesages"], "Did you mean messages?"),
        (["--sort", "messages,bytes"], "--sort takes one column"),
        (["--reverse"], "--reverse goes with --sort"),
        (["--columns", "queue,x"], "'x' is not a column"),
        (["--watch", "soon"], "is not a duration"),
        (["--watch", "0.01s"], "is not between"),
    ],
)
def test_a_wrong_list_has_one_answer(ph: Posthouse, options: list[str], cause: str) -> None:
    refused = ph("queue", "list", *options)
    assert (refused.code, cause in refused.err) == (2, True)


def test_a_queue_is_created_once_by_a_script_that_runs_again(ph: Posthouse) -> None:
    first = ph("queue", "create", "again", "--label", "first")
    assert ph("queue", "create", "again", "--label", "second", "--exist-ok").out == first.out
    assert ph("queue", "show", "again", "--json").value["label"] == "first"
    refused = ph("queue", "create", "again")
    assert refused.code == 1
    assert "`posthouse queue create --exist-ok`; in Python exist_ok=True" in refused.err
    refused = ph("queue", "create", "again", "--transactional", "--exist-ok")
    assert (refused.code, "is there, and it is not transactional" in refused.err) == (1, True)
    ph("queue", "create", "orderly", "--transactional", "--exist-ok")
    assert ph("queue", "create", "orderly", "--transactional", "--exist-ok").code == 0
    refused = ph("queue", "create", "orderly", "--exist-ok")
    assert (refused.code, "is there, and it is transactional" in refused.err) == (1, True)
    assert "delete it and create it again with --transactional or without" in refused.err
    for name in ("again", "orderly"):
        ph("queue", "delete", name, "--yes")
