"""From a submitted pod to everything a decision needs."""

from dataclasses import replace

from hami_plugins.engine.intake import PodInfo, Rules, created, dialect_of, take_in
from hami_plugins.engine.mutate import WebhookSettings
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, NodeConstraints, Pod
from hami_plugins.model.policy import DEFAULT_POLICY, SortKey
from hami_plugins.model.requests import ContainerDemand, ContainerKind
from hami_plugins.model.units import CoreShare, MiB, NodeName, PodUid, VendorName
from hami_plugins.model.vendor import AdmissionChange, ContainerAdmission, Headroom, VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors import ascend
from tests import acme
from tests.builders import ACME, CORES, COUNT, MEMORY, a_container, a_demand, a_pod, a_request

VOLCANO = replace(
    acme.SPEC,
    name=VendorName("Volcano-acme"),
    dialect=Dialect.VOLCANO,
    resources=ResourceNames(count="volcano.example/card"),
    keys=replace(acme.SPEC.keys, allocated="volcano.example/ids"),
)
REGISTRY = Registry([acme.SPEC, VOLCANO])
WEIGHTS = "hami.io/device-scoring-weights"


def test_an_admitted_pod_comes_with_demand_and_policy() -> None:
    constraints = NodeConstraints(selector=(("zone", "a"),))
    pod = a_pod(constraints=constraints, annotations={"hami.io/gpu-scheduler-policy": "mutex"})
    found = take_in(pod, REGISTRY, Rules())
    assert found.refusal == found.words == ""
    assert found.submitted is pod
    assert found.pod.scheduler == "hami-scheduler"
    assert found.demand.devices == a_demand(a_request())
    assert found.demand.constraints is constraints
    assert (found.policy.exclusive, found.dialect) == (True, Dialect.HAMI)


def test_the_demand_is_what_the_webhook_made_of_the_pod() -> None:
    spec = replace(
        acme.SPEC, admit=lambda *_: ContainerAdmission(claimed=True, changes=(AdmissionChange("limit", CORES, "70"),))
    )
    found = take_in(a_pod(), Registry([spec]), Rules())
    assert found.demand.devices == a_demand(a_request(cores=70))
    assert CORES not in found.submitted.containers[0].limits


def test_what_the_webhook_made_of_a_pod_is_not_shown_to_it_again() -> None:
    def once(_spec: VendorSpec, container: Container, _pod: Pod) -> ContainerAdmission:
        if CORES in container.limits:
            raise AdmissionDeniedError("cores are for the webhook to write")
        return ContainerAdmission(claimed=True, changes=(AdmissionChange("limit", CORES, "70"),))

    vendors = Registry([replace(acme.SPEC, admit=once)])
    first = take_in(a_pod(), vendors, Rules())
    assert take_in(first.pod, vendors, Rules()).refusal
    assert take_in(first.pod, vendors, Rules(), admitted=True).demand == first.demand


def test_a_pod_that_exists_is_as_the_webhook_has_left_it() -> None:
    """HAMi gives one device of an Ascend 910C both dies, and several devices no less than their whole memory."""
    (spec,) = (each for each in ascend.SPECS if each.name == "Ascend910C")
    registry, names = Registry([spec]), spec.resources
    first = take_in(a_pod(a_container({names.count: 1, names.memory: 16_384})), registry, Rules())
    assert (first.pod.containers[0].limits[names.count].whole, first.refusal) == (2, "")
    assert take_in(first.pod, registry, Rules(), written=True).demand == first.demand
    assert take_in(first.pod, registry, Rules()).refusal


def test_a_pod_that_exists_and_is_none_of_hamis_is_refused() -> None:
    privileged = a_pod(a_container({COUNT: 1}, privileged=True))
    assert "privileged" in take_in(privileged, REGISTRY, Rules(), written=True).refusal


def test_a_denied_pod_goes_no_further() -> None:
    found = take_in(a_pod(node="n1"), REGISTRY, Rules())
    assert not found.admission.allowed
    assert found.words == "admission denied: pod has node assigned"
    assert found.refusal == (
        f"{found.words} (no scheduler looks at it then; write nodeSelector kubernetes.io/hostname: n1)"
    )
    assert not found.demand.devices.wants_devices
    assert found.pod.node == NodeName("n1")


def test_an_amount_that_hami_lets_through_is_refused_in_our_words_and_says_what_hami_does() -> None:
    found = take_in(a_pod(a_container({COUNT: 1, MEMORY: 2**40})), REGISTRY, Rules())
    assert found.refusal == (
        f"not planned: container main: {MEMORY}={2**40}: not an amount of MiB; write 1048576 if {2**40} was meant in "
        "bytes (HAMi 2.10 admits the pod, and takes the container for one without devices: it counts nothing for it)"
    )
    assert found.words == ""
    assert found.admission.unusable is not None


def test_an_amount_that_the_api_server_refuses_is_said_to_be_so() -> None:
    for amount in ("-1", "1500m"):
        found = take_in(a_pod(a_container({COUNT: 1, MEMORY: amount})), REGISTRY, Rules())
        assert found.refusal.startswith("not planned: container main: ")
        assert found.refusal.endswith("(the API server takes whole amounts from 0 only)")


def test_cores_that_are_no_share_are_not_said_to_be_none() -> None:
    found = take_in(a_pod(a_container({COUNT: 1, CORES: 2**33})), REGISTRY, Rules())
    assert found.refusal.endswith("(HAMi 2.10 admits the pod, and counts other cores than these)")


def test_what_volcano_makes_of_an_amount_is_not_said_to_be_hamis() -> None:
    pod = a_pod(a_container({"volcano.example/card": 2**40}), scheduler="volcano")
    found = take_in(pod, REGISTRY, Rules())
    assert found.refusal.startswith("not planned: container main: volcano.example/card=")
    assert found.words == ""
    assert "HAMi" not in found.refusal


def test_quota_travels_with_the_demand_in_order_of_vendors() -> None:
    left = {VendorName("Z"): Headroom(), ACME: Headroom(MiB(5_000), CoreShare(9))}
    assert take_in(a_pod(), REGISTRY, Rules(), left).demand.headroom == tuple(sorted(left.items()))


def test_a_request_that_means_nothing_is_refused_even_where_the_webhook_does_not_look() -> None:
    pod = a_pod(a_container({COUNT: 1, MEMORY: -1}), scheduler="elsewhere")
    found = take_in(pod, REGISTRY, Rules())
    assert found.admission.allowed
    assert found.words == ""
    assert f"{MEMORY}=-1" in found.refusal


def test_unreadable_weights_are_refused_in_hamis_words() -> None:
    found = take_in(a_pod(annotations={WEIGHTS: "slot=1"}), REGISTRY, Rules())
    assert found.words == (
        f'filter error: calcScore failed invalid {WEIGHTS} annotation "slot=1": '
        "expected slot, core, and memory weights for pod p"
    )
    assert found.refusal.startswith(WEIGHTS)


def test_what_a_pod_without_devices_says_about_devices_is_not_read() -> None:
    found = take_in(a_pod(a_container({"cpu": 1}), annotations={WEIGHTS: "slot=1"}), REGISTRY, Rules())
    assert (found.refusal, found.policy) == ("", DEFAULT_POLICY)


def test_a_pod_in_volcanos_words_goes_by_volcanos_argument() -> None:
    rules = Rules(policies=PolicyDefaults(volcano="spread"))
    pod = a_pod(a_container({"volcano.example/card": 1}), annotations={WEIGHTS: "slot=1"})
    found = take_in(pod, REGISTRY, rules)
    assert found.dialect is Dialect.VOLCANO
    assert (found.policy.order, found.policy.device_words) == ((SortKey.HIGH_INDEX,), "spread")


def test_one_request_in_volcanos_words_makes_the_pod_volcanos() -> None:
    volcano = a_request(vendor="Volcano-acme")
    mixed = ContainerDemand(ContainerKind.APP, (a_request(), volcano))
    assert dialect_of(a_demand(mixed), REGISTRY) is Dialect.VOLCANO
    assert dialect_of(a_demand(a_request()), REGISTRY) is Dialect.HAMI
    assert dialect_of(a_demand(), REGISTRY) is Dialect.HAMI


def test_the_webhooks_settings_are_the_rules() -> None:
    rules = Rules(webhook=WebhookSettings(scheduler="ours"))
    assert take_in(a_pod(), REGISTRY, rules).pod.scheduler == "ours"


def uncreated(
    limits: dict[str, int | str], requests: dict[str, int | str], *, uid: str = "", writes: int = 0
) -> PodInfo:
    """What becomes of a pod's container; with ``writes`` the webhook makes that the limit of its memory."""
    changes = (AdmissionChange("limit", MEMORY, str(writes)),) if writes else ()
    spec = replace(acme.SPEC, admit=lambda *_: ContainerAdmission(claimed=True, changes=changes))
    pod = replace(a_pod(a_container(limits, requests=requests)), uid=PodUid(uid))
    return created(take_in(pod, Registry([spec]), Rules()))


def test_a_request_of_devices_without_a_limit_makes_no_pod() -> None:
    found = uncreated({}, {COUNT: 1})
    assert found.refusal == (
        f"not planned: container main: the API server refuses a request of {COUNT} without a limit; write it under "
        "limits"
    )
    assert found.words == ""
    assert not found.demand.devices.wants_devices


def test_a_request_of_devices_beside_another_limit_makes_no_pod() -> None:
    found = uncreated({COUNT: 1, MEMORY: 100}, {COUNT: 2, MEMORY: 100})
    assert f"refuses 2 {COUNT} as the request with a limit of 1" in found.refusal


def test_a_limit_that_the_webhook_writes_beside_the_request_makes_no_pod() -> None:
    found = uncreated({COUNT: 1, MEMORY: 100}, {COUNT: 1, MEMORY: 100}, writes=200)
    assert f"the webhook makes the limit {MEMORY}: 200, the request stays 100" in found.refusal
    assert f"leave {MEMORY} out" in found.refusal
    assert uncreated({COUNT: 1}, {COUNT: 1}, writes=200).refusal == ""


def test_of_plain_resources_a_request_may_be_less_than_the_limit() -> None:
    plain = {"cpu": 4, "kubernetes.io/batch-cpu": 4}
    assert uncreated({COUNT: 1, **plain}, {COUNT: 1, "cpu": 1, "kubernetes.io/batch-cpu": 1, "memory": 5}).refusal == ""


def test_pods_that_exist_have_been_created() -> None:
    assert uncreated({COUNT: 1}, {COUNT: 2}, uid="u").refusal == ""


def test_an_earlier_refusal_stays() -> None:
    found = uncreated({COUNT: 1, MEMORY: -1}, {COUNT: 2, MEMORY: -1})
    assert f"{MEMORY}=-1" in found.refusal
