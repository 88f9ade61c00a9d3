"""Shared code of commands that run Spark: a session, and the endpoint that its tasks use."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from posthouse.api.types import (
    Done,
    RoleWord,
    StatusJson,
    TokenCreateBody,
    TokenCreatedJson,
)
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.name_hints import full_name
from posthouse.cli.progress import Advance, spinner
from posthouse.cli.token import expiry
from posthouse.model.errors import ServiceNotAvailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from posthouse.client.admin_http import BulkHttp
    from posthouse.spark.progress import Progress

STANDARD_ERROR: Final = 2
TOKEN_LIFE: Final = "30d"

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master: local[4], spark://host:7077, yarn, ... (default: local[*]).",
    ),
]
Connect = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="URL",
        help="Spark Connect server, such as sc://host:15002 (default: SPARK_REMOTE, if set).",
    ),
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", metavar="QUEUE", parser=full_name, help="Queue to read; repeat it for several."
    ),
]


class EndpointAccess(NamedTuple):
    """An admin endpoint, the file with the token for it, and the certificates to trust."""

    url: str
    token_file: str | None
    ca_file: str | None = None

    @property
    def options(self) -> dict[str, str]:
        """As options of the source and the sink."""
        options = {"url": self.url, "tokenFile": self.token_file, "caFile": self.ca_file}
        return {name: value for name, value in options.items() if value is not None}


def bulk_http(place: EndpointAccess) -> BulkHttp:
    """A connection of the command's own, to the first queue manager where there are several."""
    from posthouse.client.admin_http import BulkHttp
    from posthouse.spark.options import CONNECTION, managers, taken

    first = managers(taken(place.options, CONNECTION))[0]
    return BulkHttp(first.url, token_file=first.token_file, ca_file=place.ca_file)


@contextmanager
def reached(remote: Remote, role: RoleWord = "read") -> Iterator[EndpointAccess]:
    """The queue manager as tasks reach it.

    With --url it is the one on the command line. A home has only a socket: then it is the admin
    endpoint of its queue manager, with a token that ends with the command.
    """
    if remote.url is not None:
        file = remote.token_file or os.environ.get("POSTHOUSE_TOKEN_FILE")
        trusted = remote.target.ca_file
        if trusted is not None:  # also for the workers that this command starts
            os.environ["SSL_CERT_FILE"] = str(trusted.absolute())
        yield EndpointAccess(
            remote.url,
            None if file is None else _absolute(file),
            None if trusted is None else str(trusted.absolute()),
        )
        return
    url = remote.ask(StatusJson, "GET", path_of("status")).url
    if not url:
        raise ServiceNotAvailable(
            "the queue manager has no admin endpoint, and Spark's tasks need one",
            "Set [admin] in its settings, or name another one with --url.",
        )
    body = TokenCreateBody(user="administrator", role=role, expires=expiry(TOKEN_LIFE))
    made = remote.ask(TokenCreatedJson, "POST", path_of("tokens"), body=body)
    try:
        with tempfile.TemporaryDirectory(prefix="posthouse-") as folder:  # ours alone
            file = Path(folder, "token")
            file.write_text(made.token, encoding="ascii")
            yield EndpointAccess(url, str(file))
    finally:
        remote.ask(Done, "DELETE", path_of("tokens", made.info.id))


@contextmanager
def _trusted_by_workers(ca_file: str | None) -> Iterator[None]:
    """Workers that the command starts meanwhile trust these certificates as well."""
    before = os.environ.get("SSL_CERT_FILE")
    if ca_file is not None:
        os.environ["SSL_CERT_FILE"] = ca_file
    try:
        yield
    finally:
        if ca_file is not None:
            os.environ.pop("SSL_CERT_FILE")
            if before is not None:
                os.environ["SSL_CERT_FILE"] = before


def _absolute(files: str | os.PathLike[str]) -> str:
    """Token files, several between commas, under names that every process understands."""
    return ",".join(str(Path(one.strip()).absolute()) for one in os.fspath(files).split(","))


def need_spark() -> None:
    """Ends the command, with the remedy, where Spark is not installed."""
    from posthouse.spark.sessions import require_spark

    _need(require_spark)


def need_lake() -> None:
    """Ends the command, with the remedy, where what reads and writes lakes is not installed."""
    from posthouse.spark.sessions import require_lake

    _need(require_lake)


def need_arrow() -> None:
    """Ends the command, with the remedy, where what reads tables is not installed."""
    from posthouse.spark.sessions import require_arrow

    _need(require_arrow)


def _need(require: Callable[[], None]) -> None:
    try:
        require()
    except ImportError as error:
        raise CommandFailed(str(error), name="SPARK_NOT_INSTALLED") from None


@contextmanager
def running_spark(
    name: str,
    master: str | None,
    *,
    remote: str | None = None,
    connects: bool = False,
    quiet: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session for one command; one that is there already is used, and left as it is.

    `connects`: the command can work over Spark Connect; others are refused where a server is named.
    """
    from pyspark.sql import SparkSession

    from posthouse.spark.sessions import not_over_connect, remote_of

    server = remote_of(master, remote)
    if server is not None and not connects:
        raise not_over_connect(f"pipeline {name}")
    found = SparkSession.getActiveSession()
    if found is not None:
        with _plain_errors():
            yield found
        return
    with _log_of_spark(), _plain_errors():
        with spinner("Starting Spark", quiet=quiet):
            spark = _started(name, master, server, conf or {})
        try:
            yield spark
        finally:
            spark.stop()


def _started(
    name: str, master: str | None, remote: str | None, conf: Mapping[str, str]
) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from posthouse.spark import JavaNotFound, session
    from posthouse.spark.failures import SparkFailed

    try:
        return session(name, master, remote, **conf)
    except JavaNotFound as error:
        raise CommandFailed(str(error), name="JAVA_NOT_FOUND") from None
    except (Py4JError, PySparkException) as error:
        where = f"on {remote or master}" if remote or master else "here"
        option = "--remote" if remote else "--master"
        remedy = f"Check {option}, and that the cluster runs and can be reached from here."
        raise SparkFailed(f"Spark did not start {where}", remedy) from error


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Spark's description of an error, in one line."""
    from pyspark.errors import PySparkException

    from posthouse.spark.failures import cause_of

    try:
        yield
    except PySparkException as error:
        raise cause_of(error) from None


@contextmanager
def _log_of_spark() -> Iterator[None]:
    """Other output of Spark and its processes goes to a file; it stays if Spark itself fails.

    They inherit standard error from this process, which keeps another way to it for itself.
    """
    from posthouse.spark.failures import SparkFailed

    log, name = tempfile.mkstemp(prefix="posthouse-spark-", suffix=".log")
    path, shown, own = Path(name), os.dup(STANDARD_ERROR), sys.stderr
    os.dup2(log, STANDARD_ERROR)
    os.close(log)
    try:
        with os.fdopen(shown, "w", buffering=1, errors="backslashreplace", closefd=False) as kept:
            sys.stderr = kept if own is sys.__stderr__ else own
            yield
    except SparkFailed as error:
        path = path.rename(path.with_suffix(".txt"))
        error.add_note(f"The rest of its output is in {path}.")
        raise
    finally:
        sys.stderr = own
        os.dup2(shown, STANDARD_ERROR)
        os.close(shown)
        Path(name).unlink(missing_ok=True)


def watched(advance: Advance) -> Callable[[Progress], None]:
    """Progress of a pipeline, on the screen."""

    def watch(progress: Progress) -> None:
        advance(progress.done, progress.total)

    return watch
