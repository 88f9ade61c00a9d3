"""Why a listener cannot be opened: the cause once, and the options and settings that help."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from posthouse.runtime.listen_errors import cannot_listen


async def refused(host: str, port: int) -> OSError:
    """What the event loop raises, which tells the address again."""
    with pytest.raises(OSError, match="address") as caught:
        await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    return caught.value


def test_a_port_that_another_process_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = asyncio.run(refused("127.0.0.1", port))
    told = cannot_listen("admin", "127.0.0.1", port, error)
    assert told.count(str(port)) == 1
    assert "another process uses this port" in told
    assert "[admin] port" in told
    assert "--ports" not in told, "a port that was set is not of a port set"


@pytest.mark.parametrize(("endpoint", "port"), [("admin", 8816), ("epm", 10135), ("epm", 135)])
def test_a_port_of_a_port_set_that_another_process_has(endpoint: str, port: int) -> None:
    error = OSError(errno.EADDRINUSE, "in use")
    told = cannot_listen(endpoint, "127.0.0.1", port, error)
    assert told.endswith("or start with --ports ephemeral")


@pytest.mark.parametrize(
    ("endpoint", "setting"),
    [
        ("admin", "[admin] listen in posthouse.toml"),
        ("ncp", "[ncp] listen in posthouse.toml"),
        ("binary", "--listen, or [queue_manager] listen in posthouse.toml"),
    ],
)
def test_an_address_of_another_machine(endpoint: str, setting: str) -> None:
    error = asyncio.run(refused("192.0.2.1", 0))
    told = cannot_listen(endpoint, "192.0.2.1", 0, error)
    assert told.startswith(f"{endpoint} cannot listen on 192.0.2.1: it is not an address of this")
    assert told.endswith(setting)


def test_a_privileged_port() -> None:
    error = PermissionError(errno.EACCES, "Permission denied")
    told = cannot_listen("http", "127.0.0.1", 80, error)
    assert "Start with --ports user, or set [http] port" in told


def test_any_other_reason() -> None:
    error = OSError(errno.EMFILE, "error while attempting to bind on address: too many")
    assert (
        cannot_listen("rpc", "::1", 5, error) == "rpc cannot listen on ::1:5: Too many open files"
    )
