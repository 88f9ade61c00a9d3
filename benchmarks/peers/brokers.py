"""The servers of the others: each alone on this machine, on loopback, and durable where it can."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.server import LOOPBACK, Command, NotStarted, Server, free_port

_RABBIT = "rabbitmq_server-*/sbin/rabbitmq-server"
_POSTGRES = "*/bin/postgres"
_POSTGRES_USER = "bench"  # in the database
_POSTGRES_ACCOUNT = "postgres"  # of the system; it refuses to be root


def _program(name: str, *folders: str, pattern: str = "") -> str | None:
    """A program by its newest version in a folder of its own, or by the search path."""
    for folder in folders:
        found = sorted(Path(folder).glob(pattern))
        if found:
            return str(found[-1])
    return shutil.which(name)


class RabbitServer(Server):
    """RabbitMQ. Debian's wrapper would change the user, so the script that it wraps is called."""

    title: ClassVar[str] = "RabbitMQ"
    durable: ClassVar[str] = "confirm or commit, classic durable queue"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._names_port, self._nodes_port = free_port(), free_port()

    @classmethod
    def missing(cls) -> str | None:
        """The broker, and Erlang's name server that it needs."""
        if _rabbit() is None or shutil.which("epmd") is None:
            return "rabbitmq-server is not installed (apt-get install rabbitmq-server)"
        return None

    def configure(self) -> None:
        """No plugins."""
        self._write(
            "rabbitmq.conf",
            f"listeners.tcp.1 = {LOOPBACK}:{self.port}",
            "disk_free_limit.absolute = 1GB",
            "vm_memory_high_watermark.relative = 0.5",
            "log.console.level = error",
        )
        self._write("enabled_plugins", "[].")

    def _write(self, name: str, *lines: str) -> None:
        (self.directory / name).write_text("\n".join(lines) + "\n", encoding="ascii")

    def helpers(self) -> list[tuple[Command, int]]:
        """The name server. One that RabbitMQ starts by itself would outlive the benchmark."""
        port = str(self._names_port)
        return [(Command(["epmd", "-port", port, "-address", LOOPBACK], {}), self._names_port)]

    def command(self) -> Command:
        """Idle schedulers sleep: spinning would be counted as work."""
        folder, script = str(self.directory), _rabbit()
        assert script is not None
        environment = {
            "HOME": folder,
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(self._names_port),
            "RABBITMQ_HOME": folder,
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/logs",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._nodes_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1}"
                " +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
        }
        return Command([script], environment)


def _rabbit() -> str | None:
    return _program("rabbitmq-server", "/usr/lib/rabbitmq/lib", "/opt", pattern=_RABBIT)


class RedisServer(Server):
    """Redis that syncs its log before it answers."""

    title: ClassVar[str] = "Redis-always"
    durable: ClassVar[str] = "appendfsync always, streams"

    @classmethod
    def missing(cls) -> str | None:
        """One program."""
        if shutil.which("redis-server") is None:
            return "redis-server is not installed (apt-get install redis-server)"
        return None

    def command(self) -> Command:
        """The log is never rewritten: that would fall into somebody's round."""
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "auto-aof-rewrite-percentage": "0",
            "loglevel": "warning",
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return Command(["redis-server", *words], {})


class NatsServer(Server):
    """NATS core: no JetStream, nothing on disk."""

    title: ClassVar[str] = "NATS core"
    durable: ClassVar[str] = "nothing is kept"

    @classmethod
    def missing(cls) -> str | None:
        """One program."""
        if shutil.which("nats-server") is None:
            return "nats-server is not installed (apt-get install nats-server)"
        return None

    def command(self) -> Command:
        """A slow consumer is waited for, not cut off."""
        file = self.directory / "nats.conf"
        lines = [f'listen: "{self.address}"', "max_pending: 256MB"]
        file.write_text("\n".join(lines) + "\n", encoding="ascii")
        return Command(["nats-server", "-c", str(file)], {})


class PostgresServer(Server):
    """PostgreSQL with a sync at every commit."""

    title: ClassVar[str] = "PostgreSQL"
    durable: ClassVar[str] = "commit with synchronous_commit, a table as queue"
    stop_signal = signal.SIGINT  # does not wait for sessions

    @classmethod
    def missing(cls) -> str | None:
        """The server; its tools lie beside it."""
        if _postgres() is None:
            return "postgres is not installed (apt-get install postgresql)"
        return None

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def configure(self) -> None:
        """Makes the database, for the account that will run it."""
        if os.geteuid() == 0:
            shutil.chown(self.directory, _POSTGRES_ACCOUNT)
            for folder in self.directory.parents[:2]:  # the run's own, closed to others until now
                folder.chmod(folder.stat().st_mode | 0o011)
        initdb = [_beside("initdb"), "-D", self._data, "-A", "trust", "-U", _POSTGRES_USER]
        done = subprocess.run(_as_account(initdb), capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise NotStarted(f"{self.title} could not make its database: {done.stderr.strip()}")

    def command(self) -> Command:
        """Enough room that no checkpoint is forced while it is measured."""
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "512MB",
            "max_wal_size": "4GB",
            "synchronous_commit": "on",
        }
        words = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        return Command(_as_account([_beside("postgres"), "-D", self._data, *words]), {})


def _postgres() -> str | None:
    return _program("postgres", "/usr/lib/postgresql", pattern=_POSTGRES)


def _beside(name: str) -> str:
    server = _postgres()
    assert server is not None
    return str(Path(server).with_name(name))


def _as_account(words: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return words
    account = _POSTGRES_ACCOUNT
    return ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", *words]
