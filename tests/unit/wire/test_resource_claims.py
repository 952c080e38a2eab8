"""ResourceClaims and their templates in all versions of the API."""

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.claims import ClaimConstraint, ClaimedDevice, PoolDevice, PoolId
from hami_plugins.model.pods import Requirement, Toleration
from hami_plugins.wire import resource_claims

INSIDE: dict[str, Any] = {
    "deviceClassName": "gpu",
    "selectors": [{"cel": {"expression": "true"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": True,
    "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}, {"value": "v"}],
    "capacity": {"requests": {"memory": "1Gi", "cores": "3"}},
}


def of(*requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    """A claim."""
    return {
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


@pytest.mark.parametrize("flat", [False, True])
def test_a_request_is_the_same_in_all_versions(*, flat: bool) -> None:
    """v1beta1 has the members in the request itself."""
    raw = {"name": "r", **INSIDE} if flat else {"name": "r", "exactly": INSIDE}
    (request,) = resource_claims.resource_claim(of(raw)).spec.requests
    (choice,) = request.choices
    assert (request.name, request.listed, choice.name, choice.class_name) == ("r", False, "", "gpu")
    assert (choice.selectors, choice.count, choice.admin, choice.not_read) == (("true",), 2, True, "")
    assert choice.tolerations == (Toleration("k", "Exists"), Toleration(value="v"))
    assert choice.capacity == (("cores", 3 * 10**9), ("memory", 2**30 * 10**9))


def test_a_prioritized_list_keeps_its_order() -> None:
    """Each alternative has its name; one device where no number is given."""
    listed = [{"name": "b", "deviceClassName": "x"}, {"name": "a", "deviceClassName": "y", "allocationMode": "All"}]
    (request,) = resource_claims.resource_claim(of({"name": "r", "firstAvailable": listed})).spec.requests
    assert request.listed
    assert [(each.name, each.class_name, each.count) for each in request.choices] == [("b", "x", 1), ("a", "y", 0)]


def test_constraints() -> None:
    """Both kinds, also in one item."""
    raw = of(constraints=[{"requests": ["r"], "matchAttribute": "d/a", "distinctAttribute": "d/b"}])
    assert resource_claims.resource_claim(raw).spec.constraints == (
        ClaimConstraint("d/a", ("r",)),
        ClaimConstraint("d/b", ("r",), distinct=True),
    )


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (of(constraints=[{"novelty": 1}]), "novelty"),
        (of(constraints=[{}]), "constraint without matchAttribute and distinctAttribute"),
        (of(constraints=[{"novelty": 1, "matchAttribute": "d/a"}, {"other": 1}]), "novelty"),
        (of(novelty=[]), "novelty"),
        ({"metadata": {"name": "c"}, "spec": {"controller": "x"}}, "controller"),
    ],
)
def test_what_decides_in_a_claim_and_is_not_known_is_named(raw: dict[str, Any], named: str) -> None:
    """Nothing that may keep a pod back is passed over."""
    assert resource_claims.resource_claim(raw).spec.not_read == named


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"allocationMode": "Most"}, "allocationMode Most"),
        ({"novelty": 1}, "novelty"),
        ({"capacity": {"limits": {}}}, "limits"),
        ({"selectors": [{"rego": "x"}]}, "selectors[0] is not a CEL expression"),
    ],
)
def test_what_decides_in_a_request_and_is_not_known_is_named(more: dict[str, Any], named: str) -> None:
    """The first of them."""
    (request,) = resource_claims.resource_claim(
        of({"name": "r", "exactly": {"deviceClassName": "x", **more}})
    ).spec.requests
    assert request.choices[0].not_read == named


def test_what_a_claim_was_given() -> None:
    """Devices, shares, amounts, nodes and pods."""
    results = [
        {"request": "r", "driver": "d", "pool": "p", "device": "g", "shareID": "s", "consumedCapacity": {"m": "2"}},
        {"request": "q", "driver": "d", "pool": "p", "device": "h", "adminAccess": True},
    ]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}},
        "reservedFor": [{"resource": "pods", "name": "one", "uid": "u"}],
    }
    found = resource_claims.resource_claim(of() | {"status": status})
    assert found.allocation is not None
    pool = PoolId("d", "p")
    assert found.allocation.devices == (
        ClaimedDevice(PoolDevice(pool, "g"), "r", "s", (("m", 2 * 10**9),)),
        ClaimedDevice(PoolDevice(pool, "h"), "q", admin=True),
    )
    assert found.allocation.terms == ((Requirement("metadata.name", "In", ("n",), on_field=True),),)
    assert (found.users, found.full_name, str(found.allocation.devices[0].device)) == (("one",), "team/c", "d/p/g")


def test_devices_for_all_nodes_have_no_selector() -> None:
    """The claim can be used everywhere."""
    found = resource_claims.resource_claim(of() | {"status": {"allocation": {}}})
    assert found.allocation == ((), None)
    assert resource_claims.resource_claim(of()).allocation is None


def test_whom_a_claim_was_made_for() -> None:
    """The pod that controls it; other owners are none."""
    owners = [{"kind": "Pod", "name": "x"}, {"kind": "Pod", "name": "p", "controller": True}]
    raw = of()
    raw["metadata"] |= {"ownerReferences": owners, "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    found = resource_claims.resource_claim(raw)
    assert (found.pod, found.uid, found.ending) == ("p", "u", True)


def test_a_template_holds_the_spec_of_a_claim() -> None:
    """In the namespace ``default`` where none is named."""
    raw = {"metadata": {"name": "t"}, "spec": {"spec": of({"name": "r", "deviceClassName": "gpu"})["spec"]}}
    found = resource_claims.claim_template(raw)
    assert (found.full_name, found.spec.requests[0].choices[0].class_name) == ("default/t", "gpu")


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (of({"name": "r"}), "resourceclaim team/c: spec.devices.requests[0].deviceClassName"),
        (of({"deviceClassName": "x"}), "resourceclaim team/c: spec.devices.requests[0].name"),
        (
            of({"name": "r", "firstAvailable": [{"deviceClassName": "x"}]}),
            "resourceclaim team/c: spec.devices.requests[0].firstAvailable[0].name",
        ),
        (
            of({"name": "r", "exactly": {"deviceClassName": "x", "count": -1}}),
            "resourceclaim team/c: spec.devices.requests[0].exactly.count",
        ),
        ({"metadata": {}}, "resourceclaim ?: metadata.name"),
    ],
)
def test_what_cannot_be_read_of_a_claim_is_named(raw: dict[str, Any], key: str) -> None:
    """With the path of the member."""
    with pytest.raises(WireError) as caught:
        resource_claims.resource_claim(raw)
    assert caught.value.key == key
