"""Out-of-scope features are listed where users of Trainium look for them, with the project that provides them."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/tasks/submit-torchx-jobs.md"


@pytest.mark.parametrize(
    "what", ["Slurm", "Ray", "AWS Batch", "Kubeflow Pipelines", "Airflow", "FSx", "Terraform", "etcd"]
)
def test_what_is_done_elsewhere_is_named(what: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition("## What is done elsewhere")[2].partition("\n## ")[0]
    assert what in part
