"""The page about the contracts is what the cases and the last real run say."""

from tests.contract import readme


def test_the_page_is_up_to_date(*, update_golden: bool) -> None:
    if update_golden:
        readme.FILE.write_text(readme.text(), encoding="utf-8")
    assert readme.FILE.read_text(encoding="utf-8") == readme.text(), "write it anew: python -m tests.contract.readme"
