"""The page about the contracts is what the cases and the last real run say."""

from datetime import date
from pathlib import Path

import pytest

from tests.contract import readme, record


def test_the_page_is_up_to_date(*, update_golden: bool) -> None:
    if update_golden:
        readme.FILE.write_text(readme.text(), encoding="utf-8")
    assert readme.FILE.read_text(encoding="utf-8") == readme.text(), "write it anew: python -m tests.contract.readme"


def test_a_run_replaces_that_of_its_release_and_releases_are_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FILE", tmp_path / "runs.json")
    for release, day in (("1.36.3", 1), ("1.100.0", 2), ("1.34.4", 3), ("1.36.3", 4)):
        record.write("s", day=date(2026, 1, day), versions={"kubelet": release, "containerd": "2"}, kept=["a"])
    assert [(record.tested(run), run["day"]) for run in record.runs()["s"]] == [
        ("1.34.4", "2026-01-03"),
        ("1.36.3", "2026-01-04"),
        ("1.100.0", "2026-01-02"),
    ]
