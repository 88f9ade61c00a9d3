"""How a session begins and ends, in both roles, [MS-MQQB] 3.1.5.2.3-3.1.5.4, 3.1.5.9-10."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from posthouse.model.guids import NULL_GUID
from posthouse.protocols.binary import close_reasons as breaches
from posthouse.protocols.binary.session import Role, SessionState
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.sending_queue import NEVER
from posthouse.wire.binary.internal import (
    connection_parameters,
    establish_connection,
    establish_connection_response,
    read_connection_parameters,
    read_establish_connection,
)
from tests.protocols.binary.session_rig import (
    OTHER_GUID,
    PEER_GUID,
    SETTINGS,
    End,
    Machine,
    user_message,
)

INITIATOR, ACCEPTOR = Role.INITIATOR, Role.ACCEPTOR
CLOSED = SessionState.CLOSED


def response(end: End, server: bytes = PEER_GUID, **options: bool) -> bytes:
    stamp = end.machine.clock.now_ms & 0xFFFFFFFF
    return establish_connection(end.machine.guid, server, time_stamp=stamp, **options)


# -- the initiator


@pytest.mark.spec("MS-MQQB 2.2.3/2", clause="initiator")
@pytest.mark.spec(
    "MS-MQQB 3.1.5.2.3/2",
    "MS-MQQB 3.1.5.2.3/3",
    "MS-MQQB 3.1.5.2.3/4",
    "MS-MQQB 3.1.5.2.3/5",
    "MS-MQQB 3.1.3.2/18",
)
@pytest.mark.parametrize(
    ("options", "server", "no_ping"),
    [
        ({"direct": True}, NULL_GUID, 1),
        ({"server_guid": PEER_GUID}, PEER_GUID, 1),
        ({"server_guid": PEER_GUID, "pinged": True}, PEER_GUID, 0),
    ],
)
def test_an_initiator_opens_with_a_request(
    options: dict[str, bool], server: bytes, no_ping: int
) -> None:
    end = End(role=INITIATOR, **options)
    assert end.session.state is SessionState.WAITING_EC_MSG
    end.start()
    (packet,) = end.sent()
    request = read_establish_connection(packet)
    assert not request.refused
    assert request.base.flags.internal
    assert (request.header.client_guid, request.header.server_guid) == (end.machine.guid, server)
    assert request.header.time_stamp == end.machine.clock.now_ms
    assert request.header.operating_system.session == no_ping
    assert end.session.state is SessionState.WAITING_ECR_MSG


@pytest.mark.spec("MS-MQQB 3.1.5.3.2/2", "MS-MQQB 3.1.1.3.1/2")
def test_an_initiator_learns_who_answered_a_direct_name() -> None:
    end = End(role=INITIATOR, direct=True).start()
    assert end.session.remote_guid == NULL_GUID
    end.receive(response(end))
    assert end.session.remote_guid == PEER_GUID


@pytest.mark.spec("MS-MQQB 3.1.5.3.2/1")
@pytest.mark.parametrize("wrong", ["server", "client", "refused"])
def test_an_answer_that_does_not_fit_closes(wrong: str) -> None:
    end = End(role=INITIATOR, server_guid=PEER_GUID).start()
    stamp = end.machine.clock.now_ms
    end.sent()
    end.receive(
        establish_connection(
            OTHER_GUID if wrong == "client" else end.machine.guid,
            OTHER_GUID if wrong == "server" else PEER_GUID,
            time_stamp=stamp,
            refused=wrong == "refused",
        )
    )
    assert end.session.state is CLOSED
    assert end.line.closed
    assert not end.sent()
    assert end.session.refused is (wrong == "refused")
    assert "established" not in end.host.told


@pytest.mark.spec("MS-MQQB 3.1.5.3.2/3", "MS-MQQB 3.1.3.2/14", "MS-MQQB 2.2.2.1/1")
@pytest.mark.parametrize(
    ("round_trip_ms", "timeout_ms"), [(0, 500), (62, 500), (63, 504), (20_000, 120_000)]
)
def test_the_delay_of_recoverable_acks_follows_from_the_round_trip(
    round_trip_ms: int, timeout_ms: int
) -> None:
    end = End(role=INITIATOR).start()
    assert end.session.terms.recoverable_ack_ms == NEVER
    answer = response(end)
    end.sent()
    end.machine.clock.advance(round_trip_ms)
    end.receive(answer)
    assert end.session.terms.recoverable_ack_ms == timeout_ms
    (packet,) = end.sent()
    assert read_connection_parameters(packet).header.recoverable_ack_timeout == timeout_ms


@pytest.mark.spec(
    "MS-MQQB 3.1.5.3.2/4", "MS-MQQB 3.1.5.3.2/5", "MS-MQQB 3.1.3.2/9", "MS-MQQB 3.1.3.2/11"
)
@pytest.mark.parametrize("round_trip_ms", [0, 1_500])
def test_an_initiator_then_offers_its_times_and_its_window(round_trip_ms: int) -> None:
    settings = BinarySettings(ack_quiet_ms=0, round_trip_ms=round_trip_ms)
    end = End(role=INITIATOR, settings=settings).start()
    end.sent()
    end.receive(response(end))
    (packet,) = end.sent()
    parameters = read_connection_parameters(packet)
    assert not parameters.refused
    assert parameters.header[:4] == (500, 20_000 + round_trip_ms, 0, 256)
    assert end.session.state is SessionState.WAITING_CPR_MSG
    assert end.host.told == ["established"]


@pytest.mark.spec("MS-MQQB 3.1.5.4.2/1", "MS-MQQB 3.1.1.7.1/1", "MS-MQQB 3.1.1.1.1.1/1")
def test_an_initiator_is_open_behind_the_parameters_of_the_acceptor() -> None:
    end = End(role=INITIATOR).start()
    end.receive(response(end))
    end.receive(connection_parameters(777, 99_000, 12))
    assert end.session.is_open
    assert end.session.was_open
    assert end.session.terms.peer_window == 12
    assert end.session.terms.ack_wait_ms == 20_000, "its own"
    assert end.host.told == ["established", "opened"]
    end.wait(SETTINGS.initialization_ms)
    assert end.session.is_open, "the initialization timer is stopped"


# -- the acceptor


@pytest.mark.spec("MS-MQQB 3.1.3.2/10")
@pytest.mark.parametrize("role", Role)
def test_a_new_session_is_neither_active_nor_acknowledged_nor_direct(role: Role) -> None:
    end = End(role=role, server_guid=PEER_GUID)
    assert not end.session.terms.direct
    assert not end.session._received_ack
    end.open()
    end.wait(SETTINGS.cleanup_ms - 1)
    assert end.session.is_open
    end.wait(1)
    assert end.session.state is CLOSED, "it was never active, so one interval is enough"


@pytest.mark.spec("MS-MQQB 3.1.5.10/1")
def test_an_accepted_connection_waits_for_a_request() -> None:
    end = End().start()
    assert end.session.state is SessionState.WAITING_EC_MSG
    assert not end.sent()
    assert not end.session.terms.direct


@pytest.mark.spec("MS-MQQB 2.2.3/2", clause="accepts")
@pytest.mark.spec(
    "MS-MQQB 3.1.5.3.1/1",
    "MS-MQQB 3.1.5.3.1/3",
    "MS-MQQB 3.1.5.3.1/4",
    "MS-MQQB 3.1.5.3.1/5",
    "MS-MQQB 2.2.3.1/3",
    "MS-MQQB 3.1.1.3.1/20",
)
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("pinged", [True, False])
def test_an_acceptor_answers_with_its_own_guid(direct: bool, pinged: bool) -> None:
    end = End().start()
    server = NULL_GUID if direct else end.machine.guid
    end.receive(establish_connection(PEER_GUID, server, time_stamp=0xFFFFFFFF, pinged=pinged))
    (packet,) = end.sent()
    answer = read_establish_connection(packet)
    assert not answer.refused
    header = answer.header
    assert (header.client_guid, header.server_guid) == (PEER_GUID, end.machine.guid)
    assert (header.time_stamp, header.operating_system.session) == (0xFFFFFFFF, not pinged)
    assert end.session.remote_guid == PEER_GUID
    assert end.session.state is SessionState.WAITING_CP_MSG
    assert end.session.terms.direct is direct


@pytest.mark.spec("MS-MQQB 2.2.3.1/8")
@pytest.mark.parametrize("server", [True, False])
def test_clients_and_servers_are_served_alike(server: bool) -> None:
    end = End().start()
    end.receive(establish_connection(PEER_GUID, time_stamp=1, server=server))
    assert end.session.state is SessionState.WAITING_CP_MSG


@pytest.mark.spec("MS-MQQB 3.1.3.2/16", clause="kept")
def test_the_guid_of_a_queue_manager_outlives_its_process() -> None:
    machine = Machine()
    before = read_establish_connection(End(machine, INITIATOR).start().sent()[0])
    machine.restart()
    after = read_establish_connection(End(machine, INITIATOR).start().sent()[0])
    other = read_establish_connection(End(Machine("BETA"), INITIATOR).start().sent()[0])
    assert before.header.client_guid == after.header.client_guid != other.header.client_guid


@pytest.mark.spec("MS-MQQB 2.2.3/2", clause="rejects")
@pytest.mark.spec(
    "MS-MQQB 3.1.1.1.1.2/2",
    "MS-MQQB 3.1.5.3.1/2",
    "MS-MQQB 3.1.5.3.1/5",
    "MS-MQQB 2.2.1/5",
    "MS-MQQB 2.2.1/6",
)
@pytest.mark.parametrize(
    ("reason", "client"),
    [
        (breaches.WRONG_GUID, PEER_GUID),
        (breaches.LIMIT, PEER_GUID),
        (breaches.OWN_GUID, NULL_GUID),  # finding F15: nobody is nobody, and nobody else is us
        (breaches.OWN_GUID, b""),
    ],
)
def test_a_refusal_is_said_and_closes_after_a_linger(reason: str, client: bytes) -> None:
    end = End().start()
    end.host.admitting = reason != breaches.LIMIT
    server = OTHER_GUID if reason == breaches.WRONG_GUID else NULL_GUID
    client = client or end.session.terms.own_guid
    end.receive(establish_connection(client, server, time_stamp=5))
    (packet,) = end.sent()
    assert read_establish_connection(packet).refused
    assert end.session.state is CLOSED
    assert not end.line.closed
    assert end.host.refusals == [reason]
    end.receive(connection_parameters(500, 20_000, 64))
    assert not end.sent()
    assert end.host.told == []
    end.wait(SETTINGS.refusal_linger_ms - 1)
    assert not end.line.closed
    end.wait(1)
    assert end.line.closed
    assert (end.host.told, end.host.reason) == (["closed"], reason)


def test_a_refused_peer_that_hangs_up_ends_the_linger() -> None:
    end = End().start()
    end.host.admitting = False
    end.receive(establish_connection(PEER_GUID, time_stamp=5))
    end.session.lost("the peer hung up")
    end.wait(10_000)
    assert (end.host.told, end.host.reason) == (["closed"], breaches.LIMIT)
    assert end.session.next_deadline_ms() is None


@pytest.mark.spec(
    "MS-MQQB 3.1.5.4.1/1",
    "MS-MQQB 3.1.5.4.1/3",
    "MS-MQQB 3.1.5.4.1/4",
    "MS-MQQB 2.2.2.1/2",
    "MS-MQQB 2.2.2.1/3",
)
@pytest.mark.parametrize(
    ("asked", "adopted"),
    [
        ((700, 30_000, 10), (700, 30_000, 10)),
        ((0, 0, 0), (500, 20_000, 1)),
        ((0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF), (120_000, 120_000, 0xFFFF)),
    ],
)
def test_an_acceptor_adopts_legal_times_and_repeats_what_it_was_asked(
    asked: tuple[int, int, int], adopted: tuple[int, int, int]
) -> None:
    end = End().start()
    end.receive(establish_connection(PEER_GUID, time_stamp=5))
    end.sent()
    end.receive(connection_parameters(*asked))
    (packet,) = end.sent()
    answer = read_connection_parameters(packet)
    assert not answer.refused
    assert answer.header[:2] == asked[:2]
    assert answer.header.window_size == 64
    terms = end.session.terms
    assert (terms.recoverable_ack_ms, terms.ack_wait_ms, terms.peer_window) == adopted
    assert end.session.is_open
    assert end.host.told == ["opened"]
    end.wait(SETTINGS.initialization_ms)
    assert end.session.is_open, "the initialization timer is stopped"


def test_a_host_may_close_what_it_is_told_is_open() -> None:
    end = End()
    end.host.on_opened = lambda session: session.close("not wanted")
    end.start()
    for packet in end.handshake():
        end.session.receive(packet)
    end.receive(user_message(1))
    assert end.host.told == ["opened", "closed"]


# -- the initialization timer


@pytest.mark.spec(
    "MS-MQQB 3.1.2.1/2",
    "MS-MQQB 3.1.2.1/3",
    "MS-MQQB 3.1.2.1/4",
    "MS-MQQB 3.1.6.6/1",
    "MS-MQQB 3.1.5.10/2",
    "MS-MQQB 3.1.5.2.3/1",
)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("answers", [0, 1])
@pytest.mark.parametrize("round_trip_ms", [0, 700])
def test_a_handshake_has_a_minute_and_two_round_trips_from_its_beginning(
    role: Role, answers: int, round_trip_ms: int
) -> None:
    """From the request, or from the connection that was accepted: neither earlier nor later."""
    end = End(role=role, settings=replace(SETTINGS, round_trip_ms=round_trip_ms))
    end.wait(30_000)
    end.start()
    end.wait(10_000)
    for _, packet in zip(range(answers), end.handshake(), strict=False):
        end.session.receive(packet)
    end.wait(49_999 + 2 * round_trip_ms)
    assert end.session.state is not CLOSED
    end.wait(1)
    assert end.session.state is CLOSED
    assert end.line.closed


@pytest.mark.spec("MS-MQQB 3.1.2.1/1", "MS-MQQB 3.1.2.1/2", "MS-MQQB 3.1.2.1/3")
@pytest.mark.parametrize("role", Role)
def test_a_stalled_handshake_ends_no_other_session(role: Role) -> None:
    """Neither one that is open, whose timer is stopped, nor one that began later."""
    machine = Machine()
    opened, stalled, later = (End(machine, role) for _ in range(3))
    opened.open()
    stalled.start()
    stalled.wait(30_000)
    later.start()
    stalled.wait(30_000)
    assert stalled.session.state is CLOSED
    opened.wait(0)
    assert opened.session.is_open
    later.wait(29_999)
    assert later.session.state is not CLOSED
    later.wait(1)
    assert later.session.state is CLOSED
    opened.wait(0)
    assert opened.session.is_open


# -- the end


@pytest.mark.spec("MS-MQQB 3.1.5.9/1", "MS-MQQB 3.1.5.9/3", "MS-MQQB 3.1.1.1.1.2/3")
@pytest.mark.parametrize("role", Role)
def test_closing_sends_nothing_and_stops_all_timers(role: Role) -> None:
    end = End(role=role).open()
    end.machine.create("orders")
    end.receive(user_message(1))
    end.session.close("enough")
    assert end.line.closed
    assert not end.sent()
    assert end.session.state is CLOSED
    assert end.session.next_deadline_ms() is None
    end.machine.clock.advance(10_000_000)
    end.session.tick()
    assert end.session.state is CLOSED
    assert (end.host.told[-1], end.host.reason) == ("closed", "enough")
    end.session.close("again")
    assert end.host.told.count("closed") == 1


@pytest.mark.spec("MS-MQQB 3.1.7.3/1")
@pytest.mark.parametrize("role", Role)
def test_a_lost_connection_closes_the_session(role: Role) -> None:
    end = End(role=role).open()
    end.session.lost("connection reset")
    assert end.session.state is CLOSED
    assert end.session.next_deadline_ms() is None
    assert end.host.reason == "connection reset"


def test_a_closed_session_takes_nothing_in_and_sends_nothing() -> None:
    end = End().open()
    end.machine.create("orders")
    end.session.close("enough")
    end.receive(user_message(1))
    end.session.attach(7)
    end.session.pump()
    end.session.detach(7)
    end.session.tick()
    assert end.machine.bodies("orders") == []
    assert not end.sent()


@pytest.mark.spec(
    "MS-MQQB 3.1.2.2/1", "MS-MQQB 3.1.6.2/1", "MS-MQQB 3.1.6.2/2", "MS-MQQB 3.1.3.2/3"
)
@pytest.mark.spec("MS-MQQB 3.1.1.3.1/16")
@pytest.mark.parametrize(("routing", "cleanup_ms"), [(False, 300_000), (True, 120_000)])
def test_an_idle_session_is_closed(routing: bool, cleanup_ms: int) -> None:
    end = End(routing_server=routing).open()
    end.machine.create("orders")
    end.wait(cleanup_ms - 1)
    end.receive(user_message(1))
    end.wait(1)
    assert end.session.is_open
    end.wait(cleanup_ms - 1)
    assert end.session.is_open, "it was active since the timer ran before"
    end.wait(1)
    assert end.session.state is CLOSED


@pytest.mark.spec("MS-MQQB 3.1.2/1")
def test_every_timer_is_a_setting() -> None:
    settings = replace(SETTINGS, initialization_ms=7, cleanup_ms=70)
    end = End(settings=settings).start()
    end.wait(6)
    assert end.session.state is not CLOSED
    end.wait(1)
    assert end.session.state is CLOSED
    idle = End(settings=settings).open()
    idle.wait(70)
    assert idle.session.state is CLOSED


@pytest.mark.spec("MS-MQQB 3.1.2/1")
def test_timers_have_the_documents_values() -> None:
    settings = BinarySettings()
    assert (settings.initialization_ms, settings.cleanup_ms) == (60_000, 300_000)
    assert settings.ack_wait_ms == 20_000
    assert (settings.order_ack_ms, settings.order_ack_max_ms) == (500, 10_000)
    assert settings.window == 256  # decision 28: the document has 64, as SHOULD
    minutes = [milliseconds / 60_000 for milliseconds in settings.resend_ms]
    assert minutes == [0.5] * 3 + [5] * 3 + [30] * 3 + [360]


@given(st.lists(st.binary(max_size=700), max_size=6), st.sampled_from(list(Role)))
def test_any_bytes_leave_a_session_waiting_or_closed(chunks: list[bytes], role: Role) -> None:
    end = End(role=role).start()
    for chunk in chunks:
        end.receive(chunk)
    assert not end.session.was_open
    assert end.host.told in ([], ["closed"])


@pytest.mark.parametrize("own", [True, False])
def test_who_answers_with_our_guid_or_none_is_not_a_peer(own: bool) -> None:
    end = End(Machine("ALPHA"), INITIATOR).start()
    own_guid = end.session.terms.own_guid
    request = read_establish_connection(end.sent()[0])
    answer = establish_connection_response(request, own_guid if own else NULL_GUID, refused=False)
    end.receive(answer)
    assert end.session.state is CLOSED
    assert end.host.refusals == [breaches.OWN_GUID]
