"""AdmissionReview in and out."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied, User, decode, encode


def a_review(**changes: Any) -> bytes:
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Binding"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "name": "p",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "scheduler", "groups": ["system:authenticated"]},
        "object": {"target": {"name": "n1"}},
        "oldObject": None,
        "dryRun": False,
        **changes,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def answered(answer: Answer) -> dict[str, Any]:
    review = json.loads(encode("u-1", answer))
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = review["response"]
    assert response.pop("uid") == "u-1"
    return response


def test_a_review_says_what_is_done_to_which_object_by_whom() -> None:
    assert decode(a_review()) == AdmissionRequest(
        uid="u-1",
        operation="CREATE",
        group="",
        version="v1",
        resource="pods",
        subresource="binding",
        namespace="team",
        name="p",
        user=User("scheduler", ("system:authenticated",)),
        object={"target": {"name": "n1"}},
    )


def test_what_a_review_leaves_out_is_empty() -> None:
    request = {"uid": "u", "operation": "DELETE", "resource": {"resource": "nodes"}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert decode(orjson.dumps(review)) == AdmissionRequest(
        uid="u", operation="DELETE", group="", version="", resource="nodes"
    )


def test_a_dry_run_is_told() -> None:
    assert decode(a_review(dryRun=True)).dry_run


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "AdmissionReview: not JSON"),
        (b"\xff\x00", "AdmissionReview: not JSON"),
        (b'{"apiVersion":', "AdmissionReview: not JSON"),
        (b"[]", "AdmissionReview: expected an object"),
        (b"{}", "kind: expected AdmissionReview"),
        (
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}',
            r'apiVersion: only admission.k8s.io/v1 is answered; .*admissionReviewVersions: \["v1"\].*v1beta1',
        ),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "request: is missing"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":3}', "request: expected an object"),
        (a_review(uid=""), "request.uid: is missing"),
        (a_review(uid=7), "request.uid: expected text"),
        (a_review(operation=None), "request.operation: is missing"),
        (a_review(resource=None), "request.resource.resource: is missing"),
        (a_review(object=[]), "request.object: expected an object"),
        (a_review(dryRun="yes"), "request.dryRun: expected true or false"),
        (a_review(userInfo={"groups": ["a", 1]}), r"request.userInfo.groups\[1\]: expected text"),
    ],
)
def test_a_review_that_is_none_is_refused_with_what_is_wrong(data: bytes, told: str) -> None:
    with pytest.raises(WireError, match=told):
        decode(data)


def test_an_answer_that_changes_nothing_carries_no_patch() -> None:
    assert answered(Allowed()) == {"allowed": True}


def test_operations_travel_as_base64() -> None:
    operations = [{"op": "add", "path": "/metadata/annotations/a~1b", "value": "ü"}]
    response = answered(Allowed(operations))
    assert response.pop("patchType") == "JSONPatch"
    assert json.loads(base64.b64decode(response.pop("patch"))) == operations
    assert response == {"allowed": True}


def test_a_refusal_carries_its_reason_and_its_code() -> None:
    assert answered(Denied("no card left", 409)) == {
        "allowed": False,
        "status": {"code": 409, "message": "no card left"},
    }


@pytest.mark.parametrize("answer", [Allowed(warnings=("beware",)), Denied("no", warnings=("beware",))])
def test_warnings_travel_with_every_answer(answer: Answer) -> None:
    assert answered(answer)["warnings"] == ["beware"]


_MEMBERS = st.sampled_from(["apiVersion", "kind", "request", "uid", "object"])
_SCALARS = st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3)


def _inside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2) | st.dictionaries(_MEMBERS, inner, max_size=3)


@given(st.recursive(_SCALARS, _inside, max_leaves=8))
def test_no_document_makes_the_reader_fail_otherwise(document: object) -> None:
    with pytest.raises(WireError):
        decode(orjson.dumps(document))
