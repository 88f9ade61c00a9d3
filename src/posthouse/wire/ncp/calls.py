"""What a call of the NetWare Core Protocol is: its numbers, its name, the forms of both ways."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from posthouse.wire.ncp.forms import Form
from posthouse.wire.ncp.framing import write_subfunction

Asked = TypeVar("Asked", bound=NamedTuple)
Answered = TypeVar("Answered", bound=NamedTuple)

QUEUES_AND_BINDERY: Final = 0x17


class Empty(NamedTuple):
    """No data."""


EMPTY: Final = Form(Empty)
NOTHING: Final = Empty()


class NcpCall(Generic[Asked, Answered]):
    """One call. `subfunction` is None where the function has none."""

    __slots__ = ("function", "name", "reply", "request", "section", "subfunction")

    def __init__(
        self,
        function: int,
        subfunction: int | None,
        name: str,
        request: Form[Asked],
        reply: Form[Answered],
        section: str,
    ) -> None:
        self.function = function
        self.subfunction = subfunction
        self.name = name
        self.request = request
        self.reply = reply
        self.section = section

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
        """The data of a request, behind its function."""
        data = self.request.write(asked)
        return data if self.subfunction is None else write_subfunction(self.subfunction, data)
