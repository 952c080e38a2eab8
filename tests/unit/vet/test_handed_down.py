"""The scheduler that a controller writes into templates that name none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.inputs import manifests
from hami_plugins.vendors import builtin
from hami_plugins.vet import resources

KINDS = Path(__file__).parents[1] / "inputs" / "kinds"


def schedulers(text: str) -> set[str]:
    documents = manifests.read(text, source="f.yaml")
    return {pod.scheduler for each in documents for pod in resources.subject_of(each, namespace="default").pods}


@pytest.mark.parametrize("name", ["hyperjob", "jobflow", "raycluster"])
def test_pods_that_a_controller_hands_to_volcano_are_not_told_to_name_it(name: str) -> None:
    text = (KINDS / f"{name}.yaml").read_text(encoding="utf-8")
    found = vet.vet(manifests.read(text, source="f.yaml"), builtin())
    assert "HP505" not in {each.rule for each in found}
    assert schedulers(text) == {"volcano"}


def test_a_job_inside_another_object_may_name_a_scheduler_of_its_own() -> None:
    (document,) = yaml.safe_load_all((KINDS / "hyperjob.yaml").read_text(encoding="utf-8"))
    document["spec"]["replicatedJobs"][0]["templateSpec"]["schedulerName"] = "other"
    assert schedulers(yaml.safe_dump(document)) == {"other"}


def test_ray_without_the_labels_goes_to_the_default_scheduler() -> None:
    document: dict[str, Any] = yaml.safe_load((KINDS / "raycluster.yaml").read_text(encoding="utf-8"))
    del document["metadata"]["labels"]
    assert schedulers(yaml.safe_dump(document)) == {""}
