"""Which container of the pod a device in the assignment belongs to: every container has its entry."""

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.model.decisions import Placed
from hami_plugins.model.requests import ContainerKind
from hami_plugins.vendors import builtin, nvidia
from hami_plugins.wire import pod_devices
from tests import builders
from tests.golden import cases

REGISTRY = builtin()


@cases.each("hami-core/alignment.yaml")
def test_assignment_has_the_entries_of_its_vector(case: cases.Case) -> None:
    kinds = [(ContainerKind.INIT, uses) for uses in case.given["init"]]
    kinds += [(ContainerKind.APP, uses) for uses in case.given["app"]]
    containers = [
        builders.a_container({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100} if uses else {}, name=f"c{at}", kind=kind)
        for at, (kind, uses) in enumerate(kinds)
    ]
    # A card model that is not spelled like the vendor: upstream forgets the empty entries then, we do not.
    node = builders.a_node("n", builders.a_device(vendor="NVIDIA", model="NVIDIA A100"))
    pod = builders.a_pod(*containers)
    intake = take_in(pod, REGISTRY, Rules())
    decision = Decider(REGISTRY).decide(builders.a_snapshot(node), intake.demand, intake.policy)
    assert isinstance(decision, Placed)
    written = annotations_of(intake.pod, decision, node, REGISTRY, now_ns=0)
    decoded = pod_devices.decode("test", written[nvidia.SPEC.keys.allocated])
    assert [len(container) for container in decoded] == [len(container) for container in case.expect["NVIDIA"]]
