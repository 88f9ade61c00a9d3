"""Declares one call of the NetWare Core Protocol: its number, request form and reply form.

Its numbers, its name, the forms of both ways, and the method of the engine that carries it out.
The server's dispatch, the client and `posthouse decode` read the same entries.
"""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

from posthouse.wire.ncp.forms import Form
from posthouse.wire.ncp.framing import write_subfunction

Asked = TypeVar("Asked", bound=NamedTuple)
Answered = TypeVar("Answered", bound=NamedTuple)

QUEUES_AND_BINDERY: Final = 0x17


class Empty(NamedTuple):
    """No data."""


EMPTY: Final = Form(Empty)
NOTHING: Final = Empty()


class EngineCall(NamedTuple):
    """A method of the queue manager, and the fields of the request that are its arguments."""

    part: str
    method: str
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, fields: tuple[str, ...]) -> EngineCall:
        """From how a table writes it: `part.method(field, field)`, or `part.method` for all."""
        path, listed, arguments = text.removesuffix(")").partition("(")
        part, _, method = path.partition(".")
        return cls(part, method, tuple(arguments.split(", ")) if listed else fields)


class NcpCall(Generic[Asked, Answered]):
    """One call. `subfunction` is None where the function has none.

    `engine` is None where the answer takes more than one method of the engine: such calls have a
    handler of their own in `protocols/ncp/calls`.
    """

    __slots__ = ("engine", "function", "name", "reply", "request", "section", "subfunction")

    def __init__(
        self,
        function: int,
        subfunction: int | None,
        name: str,
        request: Form[Asked],
        reply: Form[Answered],
        section: str,
        engine: str = "",
    ) -> None:
        self.function = function
        self.subfunction = subfunction
        self.name = name
        self.request = request
        self.reply = reply
        self.section = section
        self.engine = EngineCall.parse(engine, request.record._fields) if engine else None

    @property
    def key(self) -> tuple[int, int | None]:
        """Function and subfunction."""
        return self.function, self.subfunction

    @property
    def number(self) -> str:
        """As the documents write it: 23/0x79 or 0x48."""
        if self.subfunction is None:
            return f"0x{self.function:02X}"
        return f"{self.function}/0x{self.subfunction:02X}"

    def ask(self, asked: Asked) -> bytes:
        """The data of a request, after its function."""
        data = self.request.write(asked)
        return data if self.subfunction is None else write_subfunction(self.subfunction, data)

    def answer_with(self, value: Any) -> Answered:
        """The record of the reply, from what the method of the engine returned."""
        record = self.reply.record
        if isinstance(value, record):
            return value
        if len(record._fields) > 1:  # the fields at the front of the engine's value
            return record._make(value[: len(record._fields)])
        return record._make((value,) if record._fields else ())
