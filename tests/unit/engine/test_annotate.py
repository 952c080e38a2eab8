"""What the scheduler of a dialect writes on a placed pod."""

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine.annotate import annotations_of, labels_of
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import AllocatedShare, CoreMask, Instance, SlicePlacement
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName, VendorName
from hami_plugins.model.vendor import AllocationView, VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.model.verdicts import Fit
from tests import acme, acme_variants
from tests.builders import COUNT, a_container, a_device, a_node, a_pod, a_share, allocated

NOW = 1_790_000_000_123_456_789
TO_ALLOCATE, ALLOCATED = acme.SPEC.keys.to_allocate, acme.SPEC.keys.allocated
NODE, TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
VOLCANO = replace(acme.SPEC, dialect=Dialect.VOLCANO)


def written(
    *shares: tuple[AllocatedShare, ...], specs: tuple[VendorSpec, ...] = (acme.SPEC,), pod: Pod | None = None
) -> dict[str, str]:
    placed = Placed(
        node=NodeName("node-0"), containers=tuple(allocated(*each) for each in shares), fit=Fit((), 0.0), candidates=1
    )
    entry = a_node("node-0", a_device(index=4), a_device(index=5))
    asking = pod or a_pod(*(a_container({COUNT: 1}, name=f"c{at}") for at in range(len(shares))))
    return annotations_of(asking, placed, entry, Registry(specs), now_ns=NOW)


def test_both_lists_name_every_containers_devices() -> None:
    text = "card-0,Acme,500,3:card-1,Acme,500,3:;;card-1,Acme,7,0:;"
    found = written((a_share("card-0", 500, 3), a_share("card-1", 500, 3)), (), (a_share("card-1", 7),))
    assert found == {NODE: "node-0", TIME: "1790000000", TO_ALLOCATE: text, ALLOCATED: text}


def test_a_pod_without_devices_gets_nothing() -> None:
    assert written((), ()) == {}


def test_a_vendor_without_the_first_list_writes_the_second_alone() -> None:
    for spec in (
        acme_variants.records(writes_to_allocate=False),
        replace(acme.SPEC, keys=replace(acme.SPEC.keys, to_allocate="")),
    ):
        assert set(written((a_share(),), specs=(spec,))) == {NODE, TIME, ALLOCATED}


def test_cores_that_are_particular_ones_travel_as_a_mask() -> None:
    found = written((a_share("card-0", 0, 2, CoreMask(0b1010)),))
    assert found[ALLOCATED] == "card-0,Acme,0,10:;"


def test_each_vendor_writes_its_own_shares_in_its_own_list() -> None:
    other = replace(
        acme.SPEC,
        name=VendorName("Beta"),
        resources=ResourceNames(count="beta.example/card"),
        keys=replace(acme.SPEC.keys, allocated="beta-allocated", to_allocate="beta-to-allocate"),
    )
    found = written((a_share("card-0"), a_share("card-1", vendor="Beta")), specs=(acme.SPEC, other))
    assert found[ALLOCATED] == "card-0,Acme,1024,0:;"
    assert found["beta-allocated"] == "card-1,Beta,1024,0:;"


def test_a_vendor_adds_what_only_it_knows() -> None:
    def annotate(view: AllocationView) -> Mapping[str, str]:
        (shares,) = view.containers
        return {
            "index": ",".join(str(view.indexes[share.device]) for share in shares),
            "model": view.devices[shares[0].device].model,
            "when": f"{view.node} {view.now_ns} {view.pod.name} {view.spec.name}",
        }

    found = written(
        (a_share("card-1"), a_share("card-0")),
        specs=(acme_variants.records(annotate=annotate),),
    )
    assert (found["index"], found["model"], found["when"]) == ("5,4", "Acme", f"node-0 {NOW} p Acme")


def test_volcano_lists_only_containers_that_ask_for_cards_and_ends_no_list() -> None:
    pod = a_pod(
        a_container(name="a", kind=ContainerKind.INIT), a_container({COUNT: 1}, name="b"), a_container(name="c")
    )
    found = written((), (a_share("card-0", 5, 1),), (), specs=(VOLCANO,), pod=pod)
    assert set(found) == {ALLOCATED, TO_ALLOCATE}
    assert found[ALLOCATED] == "card-0,Acme,5,1:"


def test_volcano_writes_an_empty_list_for_a_pod_that_asks_for_zero_cards() -> None:
    assert written((), specs=(VOLCANO,))[ALLOCATED].strip(";") == ""
    assert written((), specs=(VOLCANO,), pod=a_pod(a_container())) == {}


def test_a_slice_of_a_card_that_is_cut_by_a_group_is_named_as_the_slice() -> None:
    grouped = a_share("GPU-1", 5, 0, Instance("g1-3", SlicePlacement(3, 1), "g1"))
    plain = a_share("GPU-1", 5, 0, Instance("1g.5gb", SlicePlacement(3, 1)))
    (cut,) = (text for key, text in written((grouped,), specs=(VOLCANO,)).items() if key == ALLOCATED)
    assert cut.startswith("GPU-1[g1-3],")
    assert written((plain,))[ALLOCATED].startswith("GPU-1,")


def test_hamis_node_name_is_a_label_too() -> None:
    assert labels_of({NODE: "n1", TIME: "1"}) == {NODE: "n1"}
    assert labels_of({"volcano.sh/vgpu-node": "n1"}) == {}
