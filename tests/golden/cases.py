"""The vector files as parameters: one parametrised test runs one file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

VECTORS = Path(__file__).parent / "vectors"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Case(NamedTuple):
    """One vector: ``given`` is its input, ``expect`` what its source says, ``about`` every member as written."""

    id: str
    given: dict[str, Any]
    expect: dict[str, Any]
    about: dict[str, Any]

    @property
    def refused(self) -> bool:
        """Whether the source expects an error, however the file spells that."""
        return bool(self.expect.get("error") or self.about.get("expect_error"))


def document(file: str) -> dict[str, Any]:
    """One file as it is, with its statements besides its cases; ``file`` is a path below ``vectors/``."""
    found: dict[str, Any] = yaml.load((VECTORS / file).read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - safe, and fast where libyaml is
    return found


def of(file: str) -> list[Case]:
    """Every case of one file, in its order."""
    return [Case(raw["id"], raw["input"], raw.get("expect", {}), raw) for raw in document(file)["cases"]]


def each(file: str, *, without: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Runs a test once for each case of a file, as its parameter ``case``.

    ``without`` are cases that the test does not look at; each of them has to be in the file.
    """
    left, found = frozenset(without), of(file)
    if unknown := left - {case.id for case in found}:
        raise ValueError(f"{file} has no {', '.join(sorted(unknown))}")
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in found if case.id not in left])
