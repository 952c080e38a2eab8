"""The page of symptoms quotes messages that the program has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.source_texts import source_texts

TREE = Path(__file__).parents[2]
PAGE = TREE / "docs" / "troubleshooting.md"
OF_OTHERS = {
    "hami-vgpuDeviceSharing error": "Volcano's plugin deviceshare",
    "failed calling webhook": "the API server",
    "UnexpectedAdmissionError": "the kubelet",
    "x509: certificate signed by unknown authority": "Go's TLS",
}
"""Symptoms in the words of other programs."""


def symptoms() -> list[str]:
    """What the first column of each table quotes."""
    rows = re.findall(r"^\| ([^|]*`[^|]*) \|", PAGE.read_text(), re.MULTILINE)
    quoted = [text for row in rows if "/readyz" not in row for text in re.findall(r"`([^`]+)`", row)]
    return [text for text in quoted if text not in OF_OTHERS]


@pytest.mark.parametrize("symptom", symptoms())
def test_a_quoted_message_is_one_of_the_program(symptom: str) -> None:
    parts = [part.strip(" ") for part in symptom.split("...")]
    assert [part for part in parts if part not in source_texts()] == []


def test_the_page_names_the_messages_of_others() -> None:
    text = PAGE.read_text()
    assert [each for each in OF_OTHERS if each not in text] == []
