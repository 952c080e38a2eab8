"""The summary of the golden data covers all of it."""

from tests.golden import summary


def test_every_file_of_vectors_is_run() -> None:
    assert summary.unread() == []


def test_every_recorded_answer_agrees_or_is_explained() -> None:
    """The last column is what neither agrees nor is explained by a rule."""
    text = summary.text()
    rows = text.partition("## Agreement with recorded answers")[2].partition("### Rules")[0].splitlines()
    unexplained = {row.split("|")[1].strip(): row.split("|")[5].strip() for row in rows if row.startswith("| ")}
    assert unexplained.pop("vendor") == "unexplained"
    assert unexplained.pop("---") == "---:"
    assert len(unexplained) > 10
    assert set(unexplained.values()) == {"0"}
