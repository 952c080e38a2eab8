"""Commands of ``hami-plugins neuron`` typed in, as the program calls them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from neuron_topology.cli import app


class Said(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def type_in(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    """Run one command; what it raises comes through."""
    capsys.readouterr()
    code = app(list(arguments), standalone_mode=False)
    printed = capsys.readouterr()
    return Said(int(code or 0), printed.out, printed.err)
