"""The webhook's changes on raw pods, and JSON Patch."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.vendor import AdmissionChange
from hami_plugins.wire import admission
from hami_plugins.wire.fields import Json

POD: dict[str, Any] = {
    "metadata": {"name": "x"},
    "spec": {
        "unknownToUs": {"kept": [1, 2.5, None]},
        "initContainers": [{"name": "fetch"}],
        "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}],
    },
}
documents: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text("a/~0é", max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("a/~0é-", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


def change(kind: str, key: str, value: str, container: int | None = None) -> tuple[int | None, AdmissionChange]:
    return container, AdmissionChange(kind, key, value)


def json_patched(document: Any, operations: list[Json]) -> Any:
    """RFC 6902 for add, replace and remove."""
    holder = {"": copy.deepcopy(document)}
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")]
        target: Any = holder
        for step in way:
            target = target[int(step)] if isinstance(target, list) else target[step]
        if operation["op"] == "remove":
            del target[last]
        elif last == "-" and isinstance(target, list):
            target.append(operation["value"])
        elif operation["op"] == "replace":
            at = int(last) if isinstance(target, list) else last
            assert at in (range(len(target)) if isinstance(target, list) else target)
            target[at] = operation["value"]
        else:
            target[last] = operation["value"]
    return holder[""]


def test_changes_land_where_kubernetes_keeps_them_and_the_rest_stays() -> None:
    before = copy.deepcopy(POD)
    after = admission.applied(
        POD,
        [
            change("limit", "nvidia.com/gpu", "1", 1),
            change("request", "nvidia.com/gpu", "1", 1),
            change("env", "B", "2", 1),
            change("limit", "nvidia.com/gpucores", "100", 0),
            change("annotation", "metax-tech.com/sgpu-qos-policy", "best-effort"),
            change("runtimeClassName", "runtimeClassName", "nvidia"),
            change("schedulerName", "schedulerName", "hami-scheduler"),
        ],
    )
    assert before == POD
    assert after == {
        "metadata": {"name": "x", "annotations": {"metax-tech.com/sgpu-qos-policy": "best-effort"}},
        "spec": {
            "unknownToUs": {"kept": [1, 2.5, None]},
            "initContainers": [{"name": "fetch", "resources": {"limits": {"nvidia.com/gpucores": "100"}}}],
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
                }
            ],
            "runtimeClassName": "nvidia",
            "schedulerName": "hami-scheduler",
        },
    }
    assert json_patched(POD, admission.patch(POD, after)) == after


def test_amounts_are_written_as_the_api_server_writes_them() -> None:
    after = admission.applied(POD, [change("limit", "iluvatar.ai/MR-V100.vCore", "1000", 1)])
    assert after["spec"]["containers"][0]["resources"]["limits"]["iluvatar.ai/MR-V100.vCore"] == "1k"


def test_changes_made_twice_are_made_once() -> None:
    changes = [change("env", "A", "2", 1), change("limit", "cpu", "2", 1)]
    once = admission.applied(POD, changes)
    assert admission.applied(once, changes) == once
    assert [variable["value"] for variable in once["spec"]["containers"][0]["env"]] == ["1", "2"]


def test_a_patch_touches_only_what_differs() -> None:
    after = admission.applied(POD, [change("limit", "nvidia.com/gpu", "1", 1), change("env", "B", "2", 1)])
    assert admission.patch(POD, after) == [
        {"op": "add", "path": "/spec/containers/0/env/-", "value": {"name": "B", "value": "2"}},
        {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": "1"},
    ]
    assert admission.patch(POD, POD) == []


@given(documents, documents)
def test_a_patch_makes_the_second_document_of_the_first(before: Any, after: Any) -> None:
    made = json_patched(before, admission.patch(before, after))
    assert canonical(made) == canonical(after)


@pytest.mark.parametrize(("kind", "container"), [("label", None), ("annotation", 0)])
def test_a_change_of_no_known_kind_is_a_mistake_of_the_vendor(kind: str, container: int | None) -> None:
    with pytest.raises(ConfigError, match="no such change"):
        admission.applied(POD, [change(kind, "a", "b", container)])


@pytest.mark.parametrize(
    ("raw", "container", "key"),
    [
        (POD, 2, "pod: spec"),
        ({"spec": []}, 0, "pod: spec"),
        ({"spec": {"containers": [{"resources": {"limits": []}}]}}, 0, "pod: spec.containers[0].resources.limits"),
    ],
)
def test_a_pod_without_a_place_for_the_change_is_refused(raw: dict[str, Any], container: int, key: str) -> None:
    with pytest.raises(WireError) as caught:
        admission.applied(raw, [change("limit", "cpu", "1", container)])
    assert caught.value.key == key


def test_an_env_that_is_no_list_is_refused() -> None:
    with pytest.raises(WireError, match="expected a list"):
        admission.applied({"spec": {"containers": [{"env": {}}]}}, [change("env", "A", "1", 0)])


def canonical(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
