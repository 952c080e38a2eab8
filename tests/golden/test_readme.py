"""The page about the golden data is what the data, the tests and the rules say."""

from tests.golden import readme


def test_the_page_is_up_to_date(*, update_golden: bool) -> None:
    if update_golden:
        readme.FILE.write_text(readme.text(), encoding="utf-8")
    assert readme.FILE.read_text(encoding="utf-8") == readme.text(), "write it anew: python -m tests.golden.readme"


def test_every_file_of_vectors_is_run() -> None:
    assert readme.unread() == []
