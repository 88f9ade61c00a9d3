"""Redirection ([MC-MQSRM] 3.1.1.1.7-10, 3.1.5.1.3) and where it never leads (decision 11)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.settings import EngineSettings
from posthouse.engine.transfer.incoming_sequences import NAMES_MAX
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.settings import RedirectSettings
from posthouse.engine.transfer.srmp.web_names import is_link_local, url_text, web_name
from posthouse.model.errors import InvalidParameter
from posthouse.model.urls import host_of
from posthouse.wire.srmp.message import SrmpMessage
from tests.engine.letters import FAR_GUID
from tests.engine.web import FAR, ORDERS, SEQUENCE, STREAMED, WebRig

URL = "http://far.example/msmq/private$/inbox"
DEFAULT = "http://alpha:8080/MSMQ/PRIVATE$/order_queue$"


def rig_with(**redirect: Any) -> WebRig:
    return WebRig(srmp_redirect=RedirectSettings(**redirect))


def outbound(url: str, *pairs: tuple[str, str], exceptions: tuple[str, ...] = ()) -> str | None:
    rig = rig_with(outbound=dict(pairs), outbound_exceptions=exceptions)
    return rig.manager.transfer.redirected(url)


# -- matching (3.1.1.1.10)


@pytest.mark.spec("MC-MQSRM 3.1.1.1.10/1")
@pytest.mark.parametrize(
    ("source", "matches"),
    [
        (URL, True),
        (URL.upper().replace("HTTP", "http"), True),  # names have no letter case
        ("http://far.example/msmq/private%24/inbox", True),
        ("http://far.example/*", True),
        (URL + "*", True),  # the empty text matches as well
        ("http://far.example/msmq/private$/in", False),
        ("http://far.example/msmq/private$/inbox2", False),
        ("https://far.example/*", False),
        ("http://far.exampl/*", False),
    ],
)
def test_from_matches_exactly_or_up_to_its_asterisk(source: str, matches: bool) -> None:
    found = outbound(URL, (source, "http://gate.example"))
    assert found == ("http://gate.example" if matches else None)


@pytest.mark.spec("MC-MQSRM 3.1.1.1.9/1", "MC-MQSRM 3.1.1.1.9/2")
@pytest.mark.parametrize(
    ("exception", "redirected"),
    [
        (URL, False),
        ("http://far.example/msmq/*", False),
        (URL + "*", False),
        ("http://far.example/msmq/private$/other", True),
    ],
)
def test_an_exception_is_not_redirected(exception: str, redirected: bool) -> None:
    found = outbound(URL, ("http://*", "http://gate.example"), exceptions=(exception,))
    assert (found is not None) is redirected


@pytest.mark.spec("MC-MQSRM 3.1.1.1.10.1/1")
def test_an_outbound_redirection_changes_the_host_and_not_the_message() -> None:
    rig = rig_with(outbound={"http://far.example/*": "http://gate.example:8080"})
    rig.send(f"DIRECT={URL}", b"x")
    (packet,) = rig.take(f"DIRECT={URL}")
    request, message = rig.request(packet)
    assert rig.manager.transfer.redirected(request.url) == "http://gate.example:8080"
    assert request.url == message.to == URL


# -- inbound (3.1.1.1.10.2, 3.1.5.1.3)


@pytest.mark.spec("MC-MQSRM 3.1.1.1.10.2/1", "MC-MQSRM 3.1.5.1.3/5")
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("http://alpha/msmq/private$/front", ORDERS),
        ("http://alpha/msmq/private$/fr*", ORDERS),
        ("http://alpha/msmq/*", ORDERS),
    ],
)
def test_an_inbound_redirection_leads_to_another_queue(source: str, target: str) -> None:
    rig = rig_with(inbound={source: target})
    assert rig.post(rig.message("http://alpha/msmq/private$/front"), body=b"x") == [200]
    assert rig.bodies("orders") == [b"x"]
    (found,) = rig.messages("orders")
    assert found.destination_queue_format_name.lower().endswith("/front")  # as it was sent


def test_a_name_of_a_web_server_in_front_of_us_can_be_led_here() -> None:
    rig = rig_with(inbound={"http://proxy.example:8080/*": "http://alpha/*"})
    for queue, message in (
        ("orders", rig.message("http://proxy.example:8080/msmq/private$/orders")),
        ("streamed", rig.streamed(1, to="http://proxy.example:8080/msmq/private$/streamed")),
    ):
        assert rig.post(message, body=b"x") == [200]
        assert rig.bodies(queue) == [b"x"]
    assert rig.post(rig.message("http://proxy.example:8081/msmq/private$/orders")) == [400]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/6")
@pytest.mark.parametrize("stream", [False, True])
def test_an_inbound_redirection_may_lead_to_another_host(stream: bool) -> None:
    there = "http://bravo.example/msmq/private$/inner"
    rig = rig_with(inbound={"http://alpha/msmq/private$/front": there})
    front = "http://alpha/msmq/private$/front"
    message = rig.streamed(1, to=front) if stream else rig.message(front)
    assert rig.post(message, body=b"x") == [200]
    (packet,) = rig.waiting(f"DIRECT={there}")
    request, sent = rig.request(packet)
    assert request.url == sent.to == there
    assert (sent.source_guid, sent.ordinal) == (FAR_GUID, message.ordinal)
    assert sent.stream == message.stream
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/7")
@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]"])
def test_nothing_is_ever_redirected_to_a_link_local_address(host: str) -> None:
    for field in ("inbound", "outbound", "receipt_urls"):
        with pytest.raises(InvalidParameter, match="link-local"):
            rig_with(**{field: {"http://a/*": f"http://{host}/msmq/q"}})


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/7")
def test_nothing_is_ever_redirected_to_our_admin_port() -> None:
    target = "http://localhost:8816/msmq/q"
    rig = rig_with(inbound={ORDERS: target}, outbound={URL: target})
    redirects = rig.manager.transfer.srmp.redirects
    assert redirects.outbound(URL) == target
    redirects.forbid_port(8816)
    assert redirects.outbound(URL) is None
    assert redirects.inbound(ORDERS) is None
    assert rig.post(rig.message(), body=b"x") == [200]  # as if there were no redirection
    assert rig.bodies("orders") == [b"x"]
    assert not redirects.is_forbidden("bravo.example", 8816)


@pytest.mark.parametrize("bad", ["bravo", "http://", "http://a@b/msmq/q", "http://a:x/msmq/q", ""])
def test_what_is_no_url_is_an_error_of_the_configuration(bad: str) -> None:
    with pytest.raises(InvalidParameter):
        rig_with(inbound={bad: ORDERS})
    with pytest.raises(InvalidParameter):
        rig_with(outbound={ORDERS: bad})


# -- receipt addresses (3.1.1.1.8, 3.1.1.1.10.3)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/17", "MC-MQSRM 3.1.7.2.4/18")
@pytest.mark.spec("MC-MQSRM 3.1.1.1.8/1", "MC-MQSRM 3.1.1.1.10.3/1")
def test_the_receipt_address_is_ours_until_an_administrator_names_another() -> None:
    assert EngineSettings("ALPHA").srmp.redirect == RedirectSettings()
    assert rig_with().manager.transfer.receipts_to(URL, DEFAULT) == DEFAULT
    gate = "http://gate.example/msmq/private$/order_queue$"
    other = "http://other.example/msmq/private$/order_queue$"
    redirects = rig_with(
        default_receipt_url=gate, receipt_urls={"http://far.example/*": other}
    ).manager.transfer.srmp.redirects
    assert redirects.receipts_to(URL, DEFAULT) == other
    assert redirects.receipts_to("http://near.example/msmq/q", DEFAULT) == gate


@pytest.mark.spec("MC-MQSRM 3.1.1.1.10.3/1")
def test_receipts_to_a_replaced_address_are_ours() -> None:
    gate = "http://gate.example/msmq/private$/receipts"
    rig = rig_with(default_receipt_url=gate)
    transaction = rig.begin()
    rig.send(f"DIRECT={URL}", b"1", tx=transaction)
    rig.commit(transaction)
    (packet,) = rig.take(f"DIRECT={URL}")
    sequence = rig.request(packet)[1].stream
    assert sequence is not None
    for to, status in ((gate + "x", 400), (gate, 200)):
        unknown: SrmpMessage = rig.stream_receipt(1, sequence.sequence_id + 1, to=to)
        assert rig.post(unknown) == [status]
    assert len(rig.waiting(f"DIRECT={URL}")) == 1
    assert rig.post(rig.stream_receipt(1, sequence.sequence_id, to=gate)) == [200]
    assert rig.waiting(f"DIRECT={URL}") == []


# -- URLs


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a/msmq/q", ("a", None)),
        ("https://a:8080", ("a", 8080)),
        ("http://[fe80::1]:80/x", ("fe80::1", 80)),
        ("http://[::1]/x", ("::1", None)),
        ("ftp:a/b", None),
    ],
)
def test_hosts_of_urls(url: str, host: tuple[str, int | None] | None) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "text", ["DIRECT=http://a/msmq/q", "a", "http:/a/msmq/q", "http://a/b", "http://a/msmq/%ff"]
)
def test_what_names_no_queue_is_no_name(text: str) -> None:
    assert web_name(text) is None


def test_texts_longer_than_any_name_are_not_looked_at() -> None:
    """What is read from URLs is remembered, and strangers choose how long they are."""
    escaped = quote("\U0001f389" * 60)
    assert web_name(f"http://a/msmq/{escaped}") is not None
    assert web_name("http://a/msmq/" + "%41" * 100_000) is None


def test_a_name_as_a_url_has_its_scheme_in_lower_case() -> None:
    name = web_name("HTTPS://Host:8080/msmq/private$/Queue")
    assert name is not None
    assert url_text(name) == "https://Host:8080/msmq/private$/Queue"
    assert is_link_local("FE80::1%eth0")
    assert not is_link_local("far.example")


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_not(text: str) -> None:
    for url in (text, f"http://{text}"):
        web_name(url)
        host_of(url)
        is_link_local(url)


def test_made_up_names_of_a_queue_keep_no_more_streams_than_one_host_may_have() -> None:
    rig = rig_with(inbound={"http://alpha/msmq/any/*": STREAMED})
    other = Peer(b"", "198.51.100.4")
    assert rig.post(rig.streamed(1), peer=other) == [200]  # another host, under the same GUID
    for number in range(NAMES_MAX + 40):
        url = f"http://alpha/msmq/any/{number}"
        assert rig.post(rig.streamed(1, to=url, sequence=SEQUENCE + number)) == [200]
    known = rig.known()
    assert len(known) == NAMES_MAX + 1
    assert {info.via for info in known} == {FAR, other.host}
    # Those that moved last go on.
    last = NAMES_MAX + 39
    url = f"http://alpha/msmq/any/{last}"
    assert rig.post(rig.streamed(2, to=url, sequence=SEQUENCE + last)) == [200]
    assert rig.post(rig.streamed(2), peer=other) == [200]
    assert len(rig.messages("streamed")) == NAMES_MAX + 43
    rig.restart()
    assert len(rig.known()) == NAMES_MAX + 1
    rig.check_books()
