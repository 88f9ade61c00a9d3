"""The exception tree."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model import errors
from posthouse.model.error_table import COMPLETION_CODES
from posthouse.model.errors import (
    ERROR_CODES,
    InsufficientResources,
    MachineQuotaExceeded,
    MalformedPacket,
    QmsError,
    QueueError,
    QueueNotFound,
    QueueQuotaExceeded,
    RemoteProtocolError,
    StatusNotFound,
    TimedOutInTransit,
    Truncated,
    error_for,
    explain,
)

CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, QueueError) and kind is not QmsError
]


def test_a_refusal_prints_name_code_cause_and_remedy() -> None:
    text = str(QueueNotFound("there is no queue .\\private$\\orders."))
    assert text == (
        "MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003): there is no queue .\\private$\\orders. "
        "Check the spelling with `posthouse queue list`, or create the queue."
    )


def test_a_refusal_can_bring_its_own_remedy() -> None:
    error = QueueNotFound("gone", "Ask the owner.")
    assert (error.cause, error.remedy) == ("gone", "Ask the owner.")


@pytest.mark.parametrize("code", COMPLETION_CODES)
def test_completion_codes_have_words_and_come_back_from_their_codes(code: int) -> None:
    error = QmsError(code & 0xFF, "x")
    assert error.code == code
    assert error.name == explain(code).name != "UNKNOWN_CODE"
    assert error.remedy
    for again in (error_for(code, "x"), pickle.loads(pickle.dumps(error))):
        assert isinstance(again, QmsError)
        assert (str(again), again.completion) == (str(error), code & 0xFF)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_the_name_of_its_code(kind: type[QueueError]) -> None:
    assert kind.name == explain(kind.code).name
    assert kind.name != "UNKNOWN_CODE"
    assert kind("x").remedy


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not QueueError])
def test_a_code_leads_back_to_its_class(kind: type[QueueError]) -> None:
    found = error_for(kind.code, "x")
    assert type(found).code == kind.code
    assert issubclass(kind, type(found)) or kind is TimedOutInTransit


def test_the_class_names_are_the_code_names_in_camel_case() -> None:
    def plain(name: str) -> str:
        return name.removeprefix("MQ_ERROR_").replace("_", "").removesuffix("EX").lower()

    odd = {kind.__name__ for kind in CLASSES if plain(kind.name) != kind.__name__.lower()}
    assert odd == {
        "QueueError",
        "IllegalProperty",
        "IllegalPropertyId",
        "QueueQuotaExceeded",
        "TooLittleMemory",
        "MachineQuotaExceeded",
        "TimedOutInTransit",
    }


def test_refused_enqueues_carry_the_status_of_the_document() -> None:
    assert (QueueQuotaExceeded.status, MachineQuotaExceeded.status) == (1, 2)
    assert TimedOutInTransit.status == 3
    assert issubclass(QueueQuotaExceeded, InsufficientResources)
    assert issubclass(MachineQuotaExceeded, InsufficientResources)


def test_unknown_tags_have_their_ntstatus() -> None:
    assert (StatusNotFound.code, StatusNotFound.name) == (0xC0000225, "STATUS_NOT_FOUND")


@given(st.integers(0, 0xFFFFFFFF) | st.sampled_from(sorted(ERROR_CODES)))
def test_any_code_becomes_an_error_that_shows_it(code: int) -> None:
    error = error_for(code, "the peer said so")
    assert error.code == code
    assert f"(0x{code:08X}): the peer said so. " in str(error)


@pytest.mark.parametrize("code", [0xC00E0003, 0xC00E0010, 0xDEADBEEF])
def test_errors_survive_pickling(code: int) -> None:
    error = error_for(code, "cause")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_faults_of_peers_are_no_refusals() -> None:
    assert issubclass(Truncated, RemoteProtocolError)
    assert issubclass(MalformedPacket, RemoteProtocolError)
    assert not issubclass(RemoteProtocolError, QueueError)
