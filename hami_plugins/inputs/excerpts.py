"""Values of annotations as messages quote them: whole, or cut between two members with their full length."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 60
"""Longer values are cut: a message names the value, the manifest has all of it."""

_ENDS: Final = ",;} "


def excerpt(text: str) -> str:
    """The value, or its beginning up to the end of a member."""
    if len(text) <= LONGEST:
        return text
    end = max(text.rfind(each, 0, LONGEST) for each in _ENDS) + 1
    return f"{text[: end or LONGEST]} ... ({len(text)} characters)"
