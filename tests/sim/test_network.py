"""The simulated network: what streams keep, what datagrams lose, and what cuts do."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.sim import Address, Conditions, Connection, Reason, SimClock, SimNetwork
from posthouse.sim.network import Receiver

SERVER = Address("b", 1801)
SEEDS = st.integers(0, 2**32)


class Recorder:
    """Keeps what it gets; echoes it if asked; says something first if asked."""

    def __init__(self, connection: Connection, hello: bytes = b"", echo: bool = False) -> None:
        self.connection = connection
        self.echo = echo
        self.pieces: list[bytes] = []
        self.reasons: list[Reason] = []
        connection.send(hello)

    def receive(self, data: bytes, now_ms: int) -> bytes:
        assert self.connection.state == "open"
        self.pieces.append(data)
        return data if self.echo else b""

    def closed(self, reason: Reason, now_ms: int) -> None:
        self.reasons.append(reason)

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


class World:
    """Host `a` talks to a listener on host `b`."""

    def __init__(self, seed: int = 1, echo: bool = False, **conditions: object) -> None:
        self.clock = SimClock()
        self.network = SimNetwork(seed, self.clock, Conditions(**conditions))  # type: ignore[arg-type]
        self.servers: list[Recorder] = []
        self.echo = echo
        self.listen()

    def listen(self) -> None:
        self.network.listen(*SERVER, self.accept)

    def accept(self, connection: Connection) -> Recorder:
        self.servers.append(Recorder(connection, echo=self.echo))
        return self.servers[-1]

    def connect(self, hello: bytes = b"") -> Recorder:
        made: list[Recorder] = []

        def make(connection: Connection) -> Recorder:
            made.append(Recorder(connection, hello))
            return made[0]

        self.network.connect("a", SERVER, make)
        return made[0]

    def connected(self) -> tuple[Recorder, Recorder]:
        client = self.connect()
        self.network.run_until_idle()
        return client, self.servers[-1]


# Streams


@given(seed=SEEDS, pieces=st.lists(st.binary(max_size=50), max_size=20))
def test_stream_keeps_every_byte_in_order(seed: int, pieces: list[bytes]) -> None:
    world = World(seed, echo=True)
    client = world.connect()
    for piece in pieces:
        client.connection.send(piece)
        world.clock.advance(seed % 7)
    world.network.run_until_idle()
    assert world.servers[0].data == client.data == b"".join(pieces)
    assert all(world.servers[0].pieces)


def test_stream_is_cut_into_pieces_and_put_together() -> None:
    sent = [bytes([number]) * 10 for number in range(30)]
    counts = Counter[str]()
    for seed in range(20):
        world = World(seed)
        client = world.connect()
        for piece in sent:
            client.connection.send(piece)
        world.network.run_until_idle()
        for piece in world.servers[0].pieces:
            counts["smaller"] += len(piece) < 10
            counts["larger"] += len(piece) > 10
    assert min(counts["smaller"], counts["larger"]) > 20


def test_bytes_sent_before_the_connection_is_open_wait() -> None:
    world = World()
    client = world.connect(b"hello")
    assert "opening" in repr(client.connection)
    world.network.run_until_idle()
    assert client.connection.state == "open"
    assert world.servers[0].data == b"hello"


@given(seed=SEEDS)
def test_server_may_speak_first(seed: int) -> None:
    world = World(seed)
    world.network.listen(*SERVER, lambda connection: Recorder(connection, b"welcome"))
    client = world.connect()
    world.network.run_until_idle()
    assert client.data == b"welcome"
    assert client.connection.state == "open"


@given(seed=SEEDS)
def test_close_comes_behind_the_last_byte(seed: int) -> None:
    world = World(seed)
    client = world.connect(b"x" * 100)
    client.connection.close()
    client.connection.send(b"too late")
    world.network.run_until_idle()
    server = world.servers[0]
    assert (server.data, server.reasons) == (b"x" * 100, ["end"])
    assert client.reasons == []
    assert client.connection.state == server.connection.state == "closed"


def test_both_sides_may_close_at_once() -> None:
    world = World()
    client, server = world.connected()
    client.connection.close()
    server.connection.close()
    world.network.run_until_idle()
    assert client.reasons == server.reasons == []
    assert client.connection.state == server.connection.state == "closed"


def test_reset_by_one_side_loses_what_is_on_the_way_and_tells_the_other() -> None:
    world = World()
    client, server = world.connected()
    client.connection.send(b"lost")
    client.connection.reset()
    client.connection.reset()
    world.network.run_until_idle()
    assert (server.data, server.reasons, client.reasons) == (b"", ["reset"], [])


def test_reset_in_the_middle_tells_both() -> None:
    world = World()
    client, server = world.connected()
    client.connection.send(b"lost")
    server.connection.send(b"lost")
    world.network.reset(client.connection)
    world.network.run_until_idle()
    assert client.reasons == server.reasons == ["reset"]
    assert client.data == server.data == b""


def test_cut_is_noticed_by_nobody() -> None:
    world = World()
    client, server = world.connected()
    client.connection.send(b"on the way")
    world.network.cut(client.connection)
    client.connection.send(b"later")
    server.connection.send(b"other way")
    world.network.run_until_idle()
    assert client.data == server.data == b""
    assert client.reasons == server.reasons == []
    assert client.connection.state == server.connection.state == "open"


def test_cut_one_way_lets_the_other_way_through() -> None:
    world = World()
    client, server = world.connected()
    world.network.cut(client.connection, one_way=True)
    client.connection.send(b"lost")
    server.connection.send(b"heard")
    world.network.run_until_idle()
    assert (client.data, server.data) == (b"heard", b"")


@pytest.mark.parametrize("one_way", [True, False])
def test_cut_before_the_server_has_heard_of_it_times_out(one_way: bool) -> None:
    world = World()
    client = world.connect(b"hello")
    world.network.cut(client.connection, one_way=one_way)
    world.network.run_until_idle()
    assert (world.servers, client.reasons) == ([], ["timeout"])


def test_cut_before_the_client_has_its_answer_times_out() -> None:
    world = World(delay_ms=(10, 10))
    client = world.connect(b"hello")
    world.clock.advance(15)
    world.network.cut(client.connection)
    world.network.run_until_idle()
    assert client.reasons == ["timeout"]
    assert world.servers[0].reasons == []


def test_end_and_reset_do_not_pass_a_cut() -> None:
    for leave in ("close", "reset"):
        world = World()
        client, server = world.connected()
        world.network.cut(client.connection)
        getattr(client.connection, leave)()
        world.network.run_until_idle()
        assert server.reasons == []
        assert server.connection.state == "open"


def test_connection_to_nobody_is_refused() -> None:
    clock = SimClock()
    network = SimNetwork(1, clock)
    made: list[Recorder] = []

    def make(connection: Connection) -> Recorder:
        made.append(Recorder(connection, b"hello"))
        return made[0]

    network.connect("a", Address("nowhere", 1), make)
    network.run_until_idle()
    assert made[0].reasons == ["refused"]
    assert clock.now_ms < 100


def test_connection_through_a_partition_times_out() -> None:
    world = World(connect_timeout_ms=3000)
    world.network.partition("a", "b")
    client = world.connect()
    world.network.run_until_idle()
    assert client.reasons == ["timeout"]
    assert world.clock.now_ms == 3000
    world.network.heal("a", "b")
    world.network.run_until_idle()
    assert world.servers == []


def test_stream_waits_for_a_partition_to_heal() -> None:
    world = World()
    client, server = world.connected()
    world.network.partition("a", "b")
    client.connection.send(b"one ")
    server.connection.send(b"back")
    world.network.run_until_idle()
    client.connection.send(b"two")
    world.network.run_until_idle()
    assert client.data == server.data == b""
    world.network.heal("b", "a")
    world.network.run_until_idle()
    assert (client.data, server.data) == (b"back", b"one two")


def test_partition_one_way_stops_one_way() -> None:
    world = World()
    client, server = world.connected()
    world.network.partition("a", "b", one_way=True)
    client.connection.send(b"waits")
    server.connection.send(b"comes")
    world.network.run_until_idle()
    assert (client.data, server.data) == (b"comes", b"")


def test_killed_host_leaves_its_peer_in_the_dark_and_resets_when_it_is_back() -> None:
    world = World()
    client, server = world.connected()
    world.network.kill("b")
    client.connection.send(b"hello?")
    world.network.run_until_idle()
    assert client.reasons == []
    world.network.revive("b")
    world.network.run_until_idle()
    assert client.reasons == ["reset"]
    assert (server.data, server.reasons) == (b"", [])


def test_killed_host_has_to_listen_again() -> None:
    world = World()
    world.network.kill("b")
    world.network.revive("b")
    refused = world.connect()
    world.network.run_until_idle()
    assert refused.reasons == ["refused"]
    world.listen()
    world.connected()
    assert len(world.servers) == 1


def test_answer_to_a_closed_side_is_dropped() -> None:
    world = World(echo=True)
    client = world.connect(b"question")
    client.connection.close()
    world.network.run_until_idle()
    assert world.servers[0].data == b"question"
    assert client.data == b""


@given(seed=SEEDS)
def test_broken_stream_has_delivered_a_first_part(seed: int) -> None:
    world = World(seed, stream_reset=0.1, stream_cut=0.1)
    sent = bytes(range(256))
    client = world.connect()
    for place in range(0, 256, 16):
        client.connection.send(sent[place : place + 16])
    world.network.run_until_idle()
    for server in world.servers:
        assert sent.startswith(server.data)
        if server.reasons:
            assert server.reasons == client.reasons == ["reset"]


def test_streams_break_by_chance() -> None:
    ends = Counter[str]()
    for seed in range(100):
        world = World(seed, stream_reset=0.05, stream_cut=0.05)
        client = world.connect(b"x" * 1000)
        world.network.run_until_idle()
        whole = world.servers[0].data == b"x" * 1000
        ends["whole" if whole else "reset" if client.reasons else "cut"] += 1
    assert set(ends) == {"whole", "reset", "cut"}


# Datagrams


def exchange(seed: int, count: int, **conditions: object) -> list[int]:
    """Numbers of the datagrams that arrived, in order of arrival."""
    network = SimNetwork(seed, SimClock(), Conditions(**conditions))  # type: ignore[arg-type]
    got: list[int] = []
    network.bind(SERVER, lambda data, source, now_ms: got.append(int(data)))
    for number in range(count):
        network.send_datagram(Address("a", 9), SERVER, str(number).encode())
    network.run_until_idle()
    return got


@given(seed=SEEDS)
def test_good_network_delivers_each_datagram_once(seed: int) -> None:
    assert sorted(exchange(seed, 20)) == list(range(20))


def test_datagrams_are_reordered() -> None:
    assert any(exchange(seed, 20) != list(range(20)) for seed in range(5))


def test_datagrams_are_lost_and_doubled() -> None:
    got = Counter(exchange(3, 1000, datagram_loss=0.2, datagram_double=0.2))
    times = Counter(got[number] for number in range(1000))
    assert set(times) == {0, 1, 2}
    assert 100 < times[0] < 250
    assert 80 < times[2] < 200


def test_partition_and_death_lose_datagrams() -> None:
    network = SimNetwork(1, SimClock())
    got: list[bytes] = []
    network.bind(SERVER, lambda data, source, now_ms: got.append(data))
    network.partition("a", "b")
    network.send_datagram(Address("a", 9), SERVER, b"stopped")
    network.send_datagram(Address("c", 9), SERVER, b"other way")
    network.run_until_idle()
    network.heal("a", "b")
    network.send_datagram(Address("a", 9), SERVER, b"too late")
    network.kill("b")
    network.revive("b")
    network.run_until_idle()
    assert got == [b"other way"]


def keeper(kept: list[bytes]) -> Receiver:
    return lambda data, source, now_ms: kept.append(data)


def test_multicast_reaches_every_member_on_its_own_luck() -> None:
    network = SimNetwork(1, SimClock(), Conditions(datagram_loss=0.5))
    group = Address("239.1.1.1", 8001)
    got: dict[str, list[bytes]] = {"b": [], "c": []}
    for host, kept in got.items():
        network.bind(group, keeper(kept), host=host)
    for number in range(50):
        network.send_datagram(Address("a", 9), group, bytes([number]))
    network.run_until_idle()
    assert got["b"]
    assert got["c"]
    assert set(got["b"]) != set(got["c"])


def test_datagram_knows_its_sender_and_its_time() -> None:
    network = SimNetwork(1, SimClock(now_ms=100), Conditions(delay_ms=(5, 5)))
    got: list[tuple[bytes, Address, int]] = []
    network.bind(SERVER, lambda data, source, now_ms: got.append((data, source, now_ms)))
    network.send_datagram(Address("a", 9), SERVER, b"ping")
    network.run_until_idle()
    assert got == [(b"ping", Address("a", 9), 105)]


def test_oversized_datagram_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        SimNetwork(1, SimClock()).send_datagram(SERVER, SERVER, bytes(65_508))


# Runs


def busy_trace(seed: int) -> list[object]:
    world = World(
        seed, echo=True, datagram_loss=0.3, datagram_double=0.3, stream_reset=0.02, stream_cut=0.02
    )
    world.network.bind(SERVER, lambda data, source, now_ms: None)
    for number in range(10):
        client = world.connect(b"x" * 50)
        world.network.send_datagram(client.connection.local, SERVER, bytes([number]))
        world.clock.advance(3)
    world.network.partition("a", "b")
    world.clock.advance(30)
    world.network.heal("a", "b")
    world.network.run_until_idle()
    return [*world.network.trace]


@given(seed=SEEDS)
def test_same_seed_gives_the_same_trace(seed: int) -> None:
    assert busy_trace(seed) == busy_trace(seed)


def test_other_seeds_give_other_traces() -> None:
    assert len({tuple(busy_trace(seed)) for seed in range(20)}) == 20


def test_endless_conversation_is_reported() -> None:
    world = World(echo=True)
    client = world.connect(b"ping")
    client.echo = True
    with pytest.raises(RuntimeError, match="seed=1"):
        world.network.run_until_idle(steps_max=200)


def test_timers_of_others_run_in_between() -> None:
    world = World(delay_ms=(10, 10))
    ran: list[tuple[int, int]] = []
    client = world.connect(b"x")
    world.clock.call_at(15, lambda: ran.append((world.clock.now_ms, len(world.servers))))
    world.clock.call_at(10_000, lambda: ran.append((world.clock.now_ms, 0)))
    world.network.run_until_idle()
    assert ran == [(15, 1)]
    assert client.connection.state == "open"
    assert not world.network.step()
