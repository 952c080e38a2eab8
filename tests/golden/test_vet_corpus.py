"""``vet`` and what the real webhook answered: what it refuses at the door, ``vet`` finds beforehand."""

import json
from pathlib import Path

import pytest

from hami_plugins import vet
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetSeverity
from tests.golden import corpus
from tests.golden.rules import Case

HAMI = Path(__file__).parent / "corpus" / "hami.jsonl.gz"
OVER_QUOTA = "exceeding resource quota"
"""Only a snapshot knows the quota."""


def errors(case: Case) -> set[str]:
    """The rules of severity error that speak about the submitted pod."""
    sources = vet.read(json.dumps(case["pod"]), source=case["id"])
    found = vet.vet(sources.documents, builtin(), unreadable=sources.unreadable)
    return {finding.rule for finding in found if finding.severity is VetSeverity.ERROR}


@pytest.fixture(scope="module")
def answered() -> list[Case]:
    return list(corpus.cases([HAMI]))


def test_every_pod_that_the_real_webhook_refuses_has_an_error(answered: list[Case]) -> None:
    refused = [case for case in answered if not case["admission"]["allowed"]]
    assert len(refused) > 30
    silent = [case["id"] for case in refused if case["admission"]["message"] != OVER_QUOTA and not errors(case)]
    assert silent == []


def test_pods_that_the_real_scheduler_places_have_no_errors_but_for_mistakes_it_overlooks(answered: list[Case]) -> None:
    """It drops requests that mean nothing, cuts cores down, and never sees what the API server would have refused."""
    overlooked = {"HP201", "HP203", "HP204", "HP206", "HP207", "HP208", "HP211", "HP412", "HP413"}
    placed = [case for case in answered if case["admission"]["allowed"] and case["fits"]]
    strange = {case["id"]: rules for case in placed if (rules := errors(case) - overlooked)}
    assert strange == {}
