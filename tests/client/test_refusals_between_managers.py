"""Why a message did not arrive: both machines say so, in `status`, `explain`, lists and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

import posthouse
from posthouse.cli.main import run
from posthouse.protocols.handlers import refused as refused_handler
from posthouse.protocols.http.background_work import awaited
from posthouse.runtime.peer_questions import ExplainPeer, PeerQuestions
from tests.client.neighbours import Neighbours, neighbours, until

LABEL = "order 4711"


@pytest.fixture(scope="module")
def pair() -> Iterator[Neighbours]:
    with neighbours() as both:
        both.target()  # strangers may send to it
        yield both


@pytest.fixture
def command(
    pair: Neighbours, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Run a command line about BETA; return what it printed."""
    monkeypatch.setenv("POSTHOUSE_HOME", str(pair.there.home))

    def printed(*words: str) -> str:
        capsys.readouterr()
        run(words)
        said = capsys.readouterr()
        return said.out + said.err

    return printed


def problems(client: posthouse.QueueManagerClient) -> list[str]:
    return list(client.call("GET", "/status")["problems"])


def refused(client: posthouse.QueueManagerClient) -> list[dict[str, Any]]:
    found, after = list[dict[str, Any]](), 0
    while after is not None:
        page = client.call("GET", f"/refused?after={after}")
        found += page["messages"]
        after = page["next"]
    return found


def test_a_refused_message_is_in_the_answers_of_the_machine_that_refused_it(
    pair: Neighbours, command: Callable[..., str]
) -> None:
    name = pair.name_of(pair.path("typo"))
    identifier = pair.near.queue(name).send(b"x", label=LABEL, recoverable=True, dead_letter=True)
    (one,) = until(lambda: [one for one in refused(pair.far) if one["id"] == identifier])
    assert (one["label"], one["queue"], one["times"]) == (LABEL, name, 1)
    assert (one["cause"], one["address"], one["dead_letter"]) == (
        "no such queue",
        "127.0.0.1",
        True,
    )
    assert one["first_time"] == one["last_time"]
    life = pair.far.call("GET", f"/messages/{quote(identifier, safe='')}/explain")
    assert re.match(
        r"refused here at 2\S+Z: no such queue\. It came from 127\.0\.0\.1 for DIRECT=TCP:\S+\. "
        r"A copy is among the dead letters; waiting in BETA\\system\$;deadletter: no such queue",
        life["answer"],
    )
    assert [one["id"] for one in life["refusals"]] == [identifier]
    (line,) = [one for one in problems(pair.far) if "refused in the last hour" in one]
    assert f"for {name} from 127.0.0.1: no such queue" in line
    assert line.endswith("posthouse message refused")
    shown = command("message", "refused", "--json")
    assert identifier.partition("\\")[0] in shown
    assert "no such queue" in command("message", "refused", "--limit", "1")
    assert "refused here at" in command("message", "explain", identifier)
    assert "nack-bad-dest-queue" in command("deadletters")


def test_a_machine_that_is_asked_says_that_it_refused_the_message(pair: Neighbours) -> None:
    name = pair.name_of(pair.path("typo"))
    identifier = pair.near.queue(name).send(b"x", recoverable=True, journal=True)
    until(lambda: [one for one in refused(pair.far) if one["id"] == identifier])
    token = pair.far.call("POST", "/tokens", {"user": "administrator", "role": "look"})["token"]
    (pair.here.home / "beta.token").write_text(token)
    peers = (ExplainPeer("BETA", pair.there.url, "beta.token"),)
    questions = PeerQuestions(pair.here.home, peers)
    path = f"/messages/{quote(identifier, safe='')}/explain"
    pair.here.admin.services.ask_peers = awaited(questions.ask)
    until(lambda: "a copy is in" in pair.near.call("GET", path)["answer"])  # it has left
    life = pair.near.call("GET", f"{path}?peers=true")
    (asked,) = life["peers"]
    assert asked["answer"].startswith("refused here at")
    assert [one["id"] for one in asked["refusals"]] == [identifier]
    # The copy in the journal comes after what became of the message.
    handed, copied = life["answer"].split("; ")
    assert handed.startswith(f"taken over by the machine of {name} at 2")
    assert copied == "a copy is in ALPHA\\system$;journal"


def test_what_the_peer_does_not_confirm_is_a_problem_of_its_sender(
    pair: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = pair.near.queue(pair.name_of(pair.path("typo")))
    queue.send(b"x", transactional=True)
    until(lambda: [one for one in refused(pair.far) if one["queue"] == queue.name])
    assert not [one for one in problems(pair.near) if "not confirmed" in one]
    driver, clock = pair.here.desk.driver, pair.here.desk.driver.clock
    monkeypatch.setattr(driver, "clock", lambda: (clock()[0], clock()[1] + 301))
    (line,) = [one for one in problems(pair.near) if "not confirmed" in one]
    assert line.startswith(f"{queue.name}: 1 message sent and not confirmed for 5 minutes.")
    path = f"/queues/{quote(queue.name, safe='')}"
    pair.near.call("POST", f"{path}/pause")  # then the line about that is enough
    assert not [one for one in problems(pair.near) if "not confirmed" in one]
    pair.near.call("POST", f"{path}/resume")
    assert [one for one in problems(pair.near) if "not confirmed" in one]
    pair.near.call("POST", f"{path}/purge")
    assert not [one for one in problems(pair.near) if "not confirmed" in one]


def test_what_was_refused_an_hour_ago_is_no_problem(
    pair: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pair.name_of(pair.path("typo"))
    pair.near.queue(name).send(b"x", recoverable=True)
    until(lambda: [one for one in refused(pair.far) if one["queue"] == name])
    assert [one for one in problems(pair.far) if name in one]
    driver, clock = pair.there.desk.driver, pair.there.desk.driver.clock
    monkeypatch.setattr(driver, "clock", lambda: (clock()[0], clock()[1] + 3_700))
    assert not [one for one in problems(pair.far) if "refused in the last hour" in one]
    assert [one for one in refused(pair.far) if one["queue"] == name]


def test_pages_of_refused_messages_and_who_may_see_them(
    pair: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = pair.far.create_queue(pair.path("closed"), transactional=True)
    ids = []
    for target in (pair.name_of(closed), pair.name_of(pair.path("typo"))):
        sent = pair.near.queue(target).send(b"x", recoverable=True)
        until(lambda sent=sent: [one for one in refused(pair.far) if one["id"] == sent])
        ids.append(sent)
    found, after = [], 0
    while after is not None:
        page = pair.far.call("GET", f"/refused?limit=1&after={after}")
        found += [one["id"] for one in page["messages"]]
        after = page["next"]
    assert found == [one["id"] for one in refused(pair.far)]
    assert found[:2] == ids[::-1]
    pair.far.call("POST", "/users", {"name": "bob", "password": "a long password"})
    token = pair.far.call("POST", "/tokens", {"user": "bob", "role": "read"})["token"]
    with posthouse.connect(url=pair.there.url, token=token) as bob:
        assert refused(bob) == []
        monkeypatch.setattr(refused_handler, "STEP_ENTRIES", 1)  # that one request looks at
        assert bob.call("GET", "/refused")["next"] is not None
        rights = {"who": "bob", "rights": ["peek"]}
        path = f"/queues/{quote(closed.name, safe='')}/access/grant"
        pair.far.call("POST", path, rights)
        assert [one["id"] for one in refused(bob)] == ids[:1]
        assert not [one for one in problems(bob) if "refused" in one]
