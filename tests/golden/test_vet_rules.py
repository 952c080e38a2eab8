"""The ids and names of ``vet``'s rules are a promise: people suppress them, and CI keeps them."""

from pathlib import Path

from hami_plugins.vet import RULES

LISTED = Path(__file__).parent / "vet_rules.txt"


def test_rules_keep_their_ids_and_names() -> None:
    """A rule may be added at the end of its theme; an id never gets another meaning."""
    listed = LISTED.read_text(encoding="utf-8").splitlines()
    assert [f"{rule.id} {rule.name} {rule.severity}" for rule in RULES] == listed


def test_ids_and_names_are_given_once() -> None:
    words = [word for rule in RULES for word in (rule.id.lower(), rule.name)]
    assert len(words) == len(set(words))
