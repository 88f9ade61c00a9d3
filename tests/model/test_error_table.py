"""The table of result codes is complete and of use to its readers."""

from __future__ import annotations

from posthouse.model.error_table import ERROR_CODES, STATUS_CODES, explain

ALL = [*ERROR_CODES.values(), *STATUS_CODES.values()]


def test_every_code_of_the_document_is_there() -> None:
    assert len(ERROR_CODES) == 145
    assert sum(code >> 16 == 0x400E for code in ERROR_CODES) == 9
    assert sum(code >> 16 == 0xC00E for code in ERROR_CODES) == 136


def test_names_are_unique() -> None:
    assert len({entry.name for entry in ALL}) == len(ALL)


def test_every_explanation_and_remedy_is_a_sentence_of_its_own() -> None:
    sentences = [entry.explanation for entry in ALL] + [entry.remedy for entry in ALL]
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert len(sentence.split()) >= 3


def test_a_known_code_is_explained() -> None:
    entry = explain(0xC00E0003)
    assert entry.name == "MQ_ERROR_QUEUE_NOT_FOUND"
    assert "queue" in entry.explanation


def test_an_unknown_code_is_explained_as_unknown() -> None:
    entry = explain(0x12345678)
    assert entry.name == "UNKNOWN_CODE"
    assert "0x12345678" in entry.explanation
