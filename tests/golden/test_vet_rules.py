"""The ids and names of ``vet``'s rules are a promise: people suppress them, and CI keeps them."""

from pathlib import Path

from hami_plugins.report import vet
from hami_plugins.report.vet import RULES, answers

LISTED = Path(__file__).parent / "vet_rules.txt"
README = Path(vet.__file__).parent / "README.md"


def test_rules_keep_their_ids_and_names() -> None:
    """A rule may be added at the end of its theme; an id never gets another meaning."""
    listed = LISTED.read_text(encoding="utf-8").splitlines()
    assert [f"{rule.id} {rule.name} {rule.severity}" for rule in RULES] == listed


def test_ids_and_names_are_given_once() -> None:
    words = [word for rule in RULES for word in (rule.id.lower(), rule.name)]
    assert len(words) == len(set(words))


def test_the_readme_has_the_table_of_rules() -> None:
    assert README.read_text(encoding="utf-8").endswith(f"## Rules\n\n{answers.rules_table(RULES)}")
