"""``plan`` and ``vet`` say the same about a manifest: annotations that nothing reads, and what a number counts."""

from pathlib import Path

import pytest

from hami_plugins import library, vet
from hami_plugins.config import settings
from hami_plugins.inputs import manifests
from hami_plugins.plan import Plan, Planner, Stage, same_card
from hami_plugins.vendors import builtin

REGISTRY = builtin()
KEYS = Path(__file__).parent / "vet" / "manifests" / "keys.yaml"
UNREAD = {"HP401", "HP402", "HP403", "HP404", "HP405", "HP407"}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {%s}}
spec:
  containers:
  - name: main
    resources: {limits: {%s}}
"""


def a_plan(text: str, fleet: str = "mixed") -> Plan:
    return library.plan(library.load_fleet(fleet, REGISTRY), text, Planner(REGISTRY))


def said_by_vet(text: str) -> dict[str, set[str]]:
    """What ``vet`` says about annotations that nothing reads, by pod."""
    found: dict[str, set[str]] = {}
    for each in vet.vet(manifests.read(text, source="m.yaml"), REGISTRY):
        if each.rule in UNREAD:
            found.setdefault(each.object.rpartition("/")[2], set()).add(f"{each.what}; {each.fix}")
    return found


def said_by_plan(plan: Plan) -> dict[str, set[str]]:
    """The notes of a plan about annotations, by pod."""
    notes = {pod.pod.name: {note for note in pod.notes if note.startswith("annotation ")} for pod in plan.pods}
    return {name: found for name, found in notes.items() if found}


def test_plan_notes_each_annotation_that_vet_finds_unread_in_the_same_words() -> None:
    text = KEYS.read_text(encoding="utf-8")
    wanted = said_by_vet(text)
    assert len(wanted) >= 9
    assert said_by_plan(a_plan(text)) == wanted


@pytest.mark.parametrize("key", ["cambricon.com/use-mlutype", "cambricon.com/nouse-mlutype"])
def test_a_model_of_cambricon_selects_nothing_as_in_hamis_code_and_plan_says_so(key: str) -> None:
    (pod,) = a_plan(POD % (f"{key}: MLU590", "cambricon.com/vmlu: 1")).pods
    assert pod.stage is Stage.PLACED  # the fleet has MLU370 alone
    (note,) = (note for note in pod.notes if key in note)
    assert "nothing reads it" in note
    assert "cambricon.com/use-gpuuuid" in note or "cambricon.com/nouse-gpuuuid" in note


def test_replicas_are_looked_at_once() -> None:
    job = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 20
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}, annotations: {nvidia.com/use-gputypes: A100}}
    spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 100}}}]}
"""
    plan = a_plan(job)
    assert len(plan.pods) == 20
    notes = [note for pod in plan.pods for note in pod.notes if "nvidia.com/use-gputypes" in note]
    assert len(notes) == 20
    assert len({id(note) for note in notes}) == 1


def test_instances_of_one_card_are_counted_as_vet_says() -> None:
    text = POD % ("", "nvidia.com/gpu: 9, nvidia.com/gpumem: 4000")
    (pod,) = a_plan(text, "h100x8-mig").pods
    assert pod.place is not None
    (allocation,) = pod.place.containers
    assert len({share.device for share in allocation.shares}) == 2
    (note,) = pod.notes
    assert note.startswith("nvidia.com/gpu=9 is 9 instances of 2 cards: it ")
    counted = note.partition(": it ")[2]
    (finding,) = vet.vet(manifests.read(text, source="m.yaml"), REGISTRY)
    assert finding.rule == "HP301"
    assert f"nvidia.com/gpu=9 {counted}, and few nodes have 9 cards" in finding.what


def test_a_note_names_the_container_where_there_are_several() -> None:
    text = POD % ("", "nvidia.com/gpu: 2, nvidia.com/gpumem: 4000")
    (pod,) = a_plan(
        text + "  - name: second\n    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}\n", "h100x8-mig"
    ).pods
    (note,) = pod.notes
    assert note.startswith("container main: nvidia.com/gpu=2 is 2 instances of 1 card: ")


def test_one_instance_of_each_card_needs_no_note() -> None:
    (pod,) = a_plan(POD % ("", "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000"), "h100x8-mig").pods
    assert pod.notes == ()


@pytest.mark.parametrize(
    ("mode", "rules"),
    [
        ("hami-core", {"HP301"}),
        ("mig", set()),
        ('"mig,hami-core"', {"HP301"}),
        ("mps", {"HP301", "HP605"}),
    ],
)
def test_vet_objects_to_nine_cards_but_not_to_nine_instances(mode: str, rules: set[str]) -> None:
    text = POD % (f"nvidia.com/vgpu-mode: {mode}", "nvidia.com/gpu: 9, nvidia.com/gpumem: 4000")
    found = vet.vet(manifests.read(text, source="m.yaml"), REGISTRY)
    assert {each.rule for each in found} == rules
    assert all(("instances" in each.what) == ("mig" in mode) for each in found if each.rule == "HP301")


@pytest.mark.parametrize("vendor", [spec.name for spec in REGISTRY if spec.resources.memory and spec.name != "NVIDIA"])
def test_other_vendors_count_cards(vendor: str) -> None:
    spec = next(each for each in REGISTRY if each.name == vendor)
    assert same_card.counted_words(spec, {}) == "counts different cards of one node"


def test_slices_of_one_card_are_never_given_to_one_container() -> None:
    """HAMi's FAQ: ``nvidia.com/gpu: 2`` is two cards, not two slices of one."""
    one_card = "nodes: [{devices: 1, model: NVIDIA A40, memoryMiB: 46068}]"
    (pod,) = a_plan(POD % ("", "nvidia.com/gpu: 2, nvidia.com/gpumem: 1000"), one_card).pods
    assert pod.stage is Stage.NODES
    two_cards = "nodes: [{devices: 2, model: NVIDIA A40, memoryMiB: 46068}]"
    (pod,) = a_plan(POD % ("", "nvidia.com/gpu: 2, nvidia.com/gpumem: 1000"), two_cards).pods
    assert pod.place is not None
    assert len({share.device for allocation in pod.place.containers for share in allocation.shares}) == 2


def test_the_older_name_of_enflame_slices_is_read_where_the_device_config_has_it() -> None:
    given = settings.parse("enflame: {resourceNameVGCU: enflame.com/vgcu}", source="device-config.yaml")
    found = manifests.read(POD % ("", "enflame.com/vgcu: 1"), source="m.yaml")
    assert [each.rule for each in vet.vet(found, given.registry())] == []
    (outdated,) = vet.vet(found, REGISTRY)
    assert outdated.rule == "HP102"
    assert "resourceNameVGCU" in outdated.fix
