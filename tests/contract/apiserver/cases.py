"""The list of cases, and the table of who keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.contract.apiserver.api import Api


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence about API servers, and how to see whether it is true.

    Where releases of Kubernetes differ, each has a sentence of its own: true from the release ``since`` on, and no more
    from ``before`` on.
    """

    claim: str
    check: Callable[[Api], None]
    since: str = ""
    before: str = ""

    def __str__(self) -> str:
        return self.claim

    def of(self, release: str) -> bool:
        """Whether the sentence is about that release, such as ``1.34``."""
        return _number(self.since or release) <= _number(release) and not (
            self.before and _number(self.before) <= _number(release)
        )


CASES: list[Case] = []
"""Every case, in the order of the modules."""

EMBEDDED: Final = "1.34"
"""The release that the embedded server is like."""


def case(claim: str, *, since: str = "", before: str = "") -> Callable[[Callable[[Api], None]], Callable[[Api], None]]:
    """Put a function on the list as the proof of a sentence."""

    def register(check: Callable[[Api], None]) -> Callable[[Api], None]:
        assert all(known.claim != claim for known in CASES), claim
        CASES.append(Case(claim, check, since, before))
        return check

    return register


def cases_of(release: str) -> list[Case]:
    """The cases that are about a release."""
    return [each for each in CASES if each.of(release)]


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")[:2]))


class Outcome(NamedTuple):
    """What became of a case: ``why`` is empty when it is kept."""

    claim: str
    why: str


def outcomes(api: Callable[[], Api], release: str = EMBEDDED) -> list[Outcome]:
    """Try every case of a release, each with a client of its own."""
    found = []
    for each in cases_of(release):
        with api() as client:
            found.append(_tried(each, client))
    return found


def table(emulator: Iterable[Outcome], real: Iterable[Outcome] = ()) -> str:
    """Case, embedded server, real server, as Markdown; what was not tried is a dash."""
    second = {outcome.claim: outcome.why for outcome in real}
    lines = ["| case | embedded | real |", "| --- | --- | --- |"]
    for outcome in emulator:
        words = [_word(outcome.why), _word(second[outcome.claim]) if outcome.claim in second else "-"]
        lines.append(f"| {outcome.claim} | {' | '.join(words)} |")
    return "\n".join(lines)


def _tried(each: Case, client: Api) -> Outcome:
    try:
        each.check(client)
    except AssertionError as error:
        return Outcome(each.claim, (str(error) or "an assertion failed").splitlines()[0][:200])
    return Outcome(each.claim, "")


def _word(why: str) -> str:
    return f"no: {why}".replace("|", "/") if why else "yes"
