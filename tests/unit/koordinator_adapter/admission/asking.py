"""Requests for admission, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hami_plugins.sandbox.apiserver.patches import json_patch
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied, User
from koordinator_adapter.core.admission.mutation import mutate
from koordinator_adapter.core.admission.policy import AdmissionPolicy, ClusterFacts
from tests.unit.koordinator_adapter.written import REGISTRY, Raw

SOMEBODY: Final = User("jane", ("system:authenticated",))
SCHEDULER: Final = User("system:serviceaccount:koordinator-system:koord-scheduler", ("system:serviceaccounts",))
POLICY: Final = AdmissionPolicy()


def creation(raw: Raw | None, *, user: User = SOMEBODY, namespace: str = "team") -> AdmissionRequest:
    """A user creates a pod."""
    return AdmissionRequest(
        uid="u", operation="CREATE", group="", version="v1", resource="pods", namespace=namespace, user=user, object=raw
    )


def change(before: Raw, after: Raw, *, user: User = SOMEBODY) -> AdmissionRequest:
    """A user changes a pod."""
    return AdmissionRequest(
        uid="u",
        operation="UPDATE",
        group="",
        version="v1",
        resource="pods",
        namespace="team",
        user=user,
        object=after,
        old_object=before,
    )


def answered(
    raw: Raw, policy: AdmissionPolicy = POLICY, facts: ClusterFacts | None = None, user: User = SOMEBODY
) -> Answer:
    """What the mutating part says."""
    return mutate(creation(raw, user=user), REGISTRY, policy, facts or ClusterFacts())


def admitted(
    raw: Raw, policy: AdmissionPolicy = POLICY, facts: ClusterFacts | None = None, user: User = SOMEBODY
) -> Raw:
    """The pod as it comes in; one that is refused fails the test."""
    answer = answered(raw, policy, facts, user)
    assert isinstance(answer, Allowed), answer
    return patched(raw, answer)


def patched(raw: Raw, answer: Allowed) -> Raw:
    """The pod with the operations laid over it, as an API server does."""
    found: Any = json_patch(raw, json.loads(json.dumps(list(answer.operations))))
    return dict(found)


def reason(answer: Answer) -> str:
    """Why not; an answer that allows fails the test."""
    assert isinstance(answer, Denied), answer
    return answer.reason


def annotated(raw: Raw, annotations: Mapping[str, str]) -> Raw:
    """The pod with more annotations."""
    metadata = raw["metadata"]
    return {**raw, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}
