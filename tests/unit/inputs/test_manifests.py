"""Manifest files to documents that know where they and their parts stand."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests

PODS = """\
# two pods
apiVersion: v1
kind: Pod
metadata:
  name: one
spec:
  containers:
  - name: main
    resources:
      limits: {cpu: 1,
        nvidia.com/gpu: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
"""
LISTING = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: PodList
  items:
  - metadata: {name: a}
  - {kind: Pod, apiVersion: v1, metadata: {name: b}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: c
"""


def fault(text: str) -> str:
    with pytest.raises(ManifestError) as caught:
        manifests.read(text, source="f.yaml")
    return str(caught.value)


def test_documents_know_their_file_number_and_lines() -> None:
    one, two = manifests.read(PODS, source="pods.yaml")
    assert (one.source, one.number, one.line) == ("pods.yaml", 1, 2)
    assert (two.source, two.number, two.line) == ("pods.yaml", 2, 13)
    assert one.line_of(("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu")) == 11
    assert one.line_of(("spec", "containers", 0)) == 8
    assert two.line_of(("metadata", "name")) == 15


def test_the_line_of_what_is_missing_is_that_of_what_is_around_it() -> None:
    one, two = manifests.read(PODS, source="pods.yaml")
    assert one.line_of(("spec", "containers", 3, "name")) == 7
    assert two.line_of(("spec", "nodeName")) == 13


def test_a_fault_spells_place_and_path() -> None:
    one, _ = manifests.read(PODS, source="pods.yaml")
    path = ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu")
    spelled = 'spec.containers[0].resources.limits["nvidia.com/gpu"]'
    assert str(one.fault(path, "too many")) == f"pods.yaml: document 1, line 11, column 9: {spelled}: too many"
    assert str(one.fault((), "bad")) == "pods.yaml: document 1, line 2, column 1: bad"


@pytest.mark.parametrize("only_in_yaml", ["\r", "\x85", "\u2028", "\u2029"])
def test_a_line_ends_where_an_editor_ends_it(only_in_yaml: str) -> None:
    text = f"apiVersion: v1\r\nkind: '{only_in_yaml}Pod'\nmetadata: {{}}\nspec: {only_in_yaml * 3} {{containers: []}}\n"
    (one,) = manifests.read(text, source="pods.yaml")
    assert "line 4, column 1:" in str(one.fault(("spec",), "bad"))
    with pytest.raises(ManifestError, match="line 4, column 7:"):
        manifests.read(text.replace(only_in_yaml * 3, "]"), source="pods.yaml")


def test_lists_give_their_items_in_order_with_their_own_places() -> None:
    found = manifests.read(LISTING, source="f")
    assert [document.raw["metadata"] for document in found] == [{"name": name} for name in "abc"]
    assert [document.raw["kind"] for document in found] == ["Pod", "Pod", "Pod"]
    assert [document.line for document in found] == [7, 8, 9]
    assert found[2].line_of(("metadata", "name")) == 12
    assert str(found[0].fault(("spec",), "missing")).endswith("line 7, column 5: items[0].items[0].spec: missing")


def test_a_listing_printed_as_json_reads_like_the_same_in_yaml() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in "ab"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}, indent=2)
    found = manifests.read(text, source="f")
    assert [document.raw for document in found] == pods
    assert [document.line for document in found] == [5, 12]


def test_an_empty_list_is_no_object() -> None:
    assert manifests.read("{apiVersion: v1, kind: List, items: []}", source="f") == ()


def test_a_kind_that_only_sounds_like_a_list_is_an_object() -> None:
    (document,) = manifests.read("apiVersion: x/v1\nkind: AllowList\nspec: {}\n", source="f")
    assert document.raw["kind"] == "AllowList"


def test_what_torchx_prints_before_the_request_is_skipped() -> None:
    text = "=== APPLICATION ===\n{ 'name': [\n\n=== SCHEDULER REQUEST ===\nkind: Pod\napiVersion: v1\n"
    (document,) = manifests.read(text, source="dryrun")
    assert (document.raw["kind"], document.line) == ("Pod", 5)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\n---\n- x\n", "document 2, line 3, column 1", "a list"),
        ("text\n", "document 1, line 1, column 1", "a single value"),
        ("[]", "document 1, line 1, column 1", "a list"),
        ("kind: Pod\n", "document 1, line 1, column 1", "no apiVersion"),
        ("apiVersion: v1\nkind: ''\n", "document 1, line 1, column 1", "no kind"),
        ("apiVersion: 1\nkind: Pod\n", "document 1, line 1, column 1: apiVersion", "text"),
        ("kind: List\napiVersion: v1\nitems:\n- 1\n", "document 1, line 4, column 3: items[0]", "mapping"),
        ("kind: List\napiVersion: v1\nitems:\n- kind: Pod\n", "document 1, line 4, column 3", "no apiVersion"),
    ],
)
def test_what_is_no_kubernetes_object_is_refused_with_its_place(text: str, place: str, words: str) -> None:
    message = fault(text)
    assert message.startswith(f"f.yaml: {place}: ")
    assert words in message


@given(st.text() | st.sampled_from(["kind: List\napiVersion: v1\nitems: ", "kind: A\napiVersion: "]).flatmap(
    lambda head: st.text(alphabet="[]{}:-, \nab1\"'&*", max_size=30).map(head.__add__)
))  # fmt: skip
def test_any_text_gives_documents_with_places_or_a_manifest_error(text: str) -> None:
    with suppress(ManifestError):
        for document in manifests.read(text, source="f"):
            assert document.line >= 1
