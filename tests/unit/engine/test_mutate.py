"""What the admission webhook decides about a pod."""

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine.mutate import OTHER_SCHEDULER, PodAdmission, PodChange, WebhookSettings, admit, applied
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import AdmissionChange, ContainerAdmission, Headroom, VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from tests import acme
from tests.builders import ACME, CORES, COUNT, MEMORY, a_container, a_pod

SETTINGS = WebhookSettings()
INIT = ContainerKind.INIT


def answered(
    pod: Pod,
    *specs: VendorSpec,
    settings: WebhookSettings = SETTINGS,
    left: Mapping[VendorName, Headroom] | None = None,
) -> PodAdmission:
    return admit(pod, Registry(specs or (acme.SPEC,)), settings, left)


def denied(pod: Pod, *specs: VendorSpec, left: Mapping[VendorName, Headroom] | None = None) -> tuple[int, str]:
    answer = answered(pod, *specs, left=left)
    assert not answer.allowed
    assert answer.pod is pod
    assert answer.changes == ()
    return answer.code, answer.message


def test_a_pod_with_devices_is_given_to_our_scheduler() -> None:
    answer = answered(a_pod())
    assert (answer.allowed, answer.claimed, answer.pod.scheduler) == (True, (ACME,), "hami-scheduler")
    assert answer.changes == (PodChange(None, AdmissionChange("schedulerName", "schedulerName", "hami-scheduler")),)


def test_a_pod_without_devices_is_left_alone() -> None:
    pod = a_pod(a_container({"cpu": 1}, privileged=True), node="n1")
    assert answered(pod) == PodAdmission(allowed=True, pod=pod)


def test_a_pod_needs_an_application_container() -> None:
    assert denied(a_pod(a_container({COUNT: 1}, kind=INIT))) == (403, "pod has no containers")


class TestSchedulers:
    """The owner of the pod."""

    def test_another_schedulers_pod_is_not_ours(self) -> None:
        pod = a_pod(scheduler="volcano", node="n1")
        assert answered(pod) == PodAdmission(allowed=True, pod=pod, message=OTHER_SCHEDULER)

    def test_the_default_schedulers_pod_is_taken_over_unless_told_otherwise(self) -> None:
        assert answered(a_pod(scheduler="default-scheduler")).pod.scheduler == "hami-scheduler"
        modest = WebhookSettings(takes_over_default=False)
        assert answered(a_pod(scheduler="default-scheduler"), settings=modest).message == OTHER_SCHEDULER

    def test_our_own_pod_is_ours(self) -> None:
        assert answered(a_pod(scheduler="hami-scheduler")).claimed == (ACME,)

    def test_without_a_scheduler_of_ours_nothing_is_written_and_bound_pods_pass(self) -> None:
        nameless = WebhookSettings(scheduler="")
        answer = answered(a_pod(node="n1"), settings=nameless)
        assert (answer.allowed, answer.pod.scheduler, answer.changes) == (True, "", ())
        assert answered(a_pod(scheduler="mine"), settings=nameless).message == OTHER_SCHEDULER


def test_a_pod_that_is_bound_already_is_denied() -> None:
    assert denied(a_pod(node="n1")) == (403, "pod has node assigned")


def test_the_first_privileged_container_is_named() -> None:
    pod = a_pod(a_container(name="load", kind=INIT, privileged=True), a_container({COUNT: 1}, privileged=True))
    assert denied(pod) == (403, "container load is privileged")


def test_a_request_that_cannot_mean_anything_is_denied_with_its_reason() -> None:
    code, message = denied(a_pod(a_container({COUNT: 1, MEMORY: -5})))
    assert code == 400
    assert message.startswith(f"container main: {MEMORY}=-5: not an amount of MiB")


class TestQuota:
    """A namespace's quota is asked for what the pod names outright."""

    def passes(self, memory: int, *containers: Container, cores: int | None = None) -> bool:
        room = Headroom(MiB(memory), None if cores is None else CoreShare(cores))
        answer = answered(a_pod(*containers), left={ACME: room})
        assert answer.message == ("" if answer.allowed else "exceeding resource quota")
        return answer.allowed

    def test_the_denial_knows_every_limit_in_the_units_of_its_resource(self) -> None:
        room = {ACME: Headroom(MiB(1_500), CoreShare(10))}
        denied = answered(a_pod(a_container({COUNT: 2, MEMORY: 1_000, CORES: 20})), left=room)
        assert denied.detail == f"limits.{MEMORY}: asks 2,000, 1,500 left; limits.{CORES}: asks 40, 10 left"

    def test_cards_multiply_and_containers_add_up(self) -> None:
        two = a_container({COUNT: 2, MEMORY: 100})
        assert self.passes(400, two, two)
        assert not self.passes(399, two, two)

    def test_the_largest_init_container_counts_if_it_is_larger(self) -> None:
        small, large = (a_container({COUNT: 1, MEMORY: size}, kind=INIT) for size in (100, 300))
        assert self.passes(300, small, large, small, a_container({COUNT: 1, MEMORY: 200}))
        assert not self.passes(299, small, large, a_container({COUNT: 1, MEMORY: 200}))

    def test_cores_count_too(self) -> None:
        both = a_container({COUNT: 2, MEMORY: 1, CORES: 30})
        assert self.passes(10, both, cores=60)
        assert not self.passes(10, both, cores=59)

    def test_whole_cards_are_not_counted_because_only_a_card_says_what_they_are_worth(self) -> None:
        assert self.passes(0, a_container({COUNT: 4}))


class TestVendors:
    """What vendors may do to a container."""

    @staticmethod
    def spec(*changes: AdmissionChange, claims: bool = True) -> VendorSpec:
        return replace(acme.SPEC, admit=lambda *_: ContainerAdmission(claims, changes))

    def test_changes_are_made_on_the_container_they_are_about(self) -> None:
        spec = replace(
            acme.SPEC,
            admit=lambda spec, container, pod: ContainerAdmission(
                claimed=True,
                changes=(
                    AdmissionChange("limit", CORES, "50"),
                    AdmissionChange("request", MEMORY, "7"),
                    AdmissionChange("env", f"NAME_{container.name}", "x"),
                ),
            ),
        )
        answer = answered(
            a_pod(a_container({COUNT: 1}, name="a", kind=INIT), a_container({COUNT: 1, CORES: 1}, name="b")), spec
        )
        one, two = answer.pod.containers
        assert (str(two.limits[CORES]), str(two.requests[MEMORY]), sorted(two.env)) == ("50", "7", ["NAME_b"])
        assert (sorted(one.limits), sorted(one.env)) == ([COUNT, CORES], ["NAME_a"])
        assert [change.container for change in answer.changes] == [0, 0, 0, 1, 1, 1, None]

    def test_changes_of_the_pod_are_made_on_the_pod(self) -> None:
        spec = self.spec(
            AdmissionChange("annotation", "tier", "gold"),
            AdmissionChange("runtimeClassName", "runtimeClassName", "acme"),
        )
        answer = answered(a_pod(annotations={"own": "1"}), spec)
        assert answer.pod.annotations == {"own": "1", "tier": "gold"}
        assert answer.pod.runtime_class == "acme"
        assert [change.container for change in answer.changes[:2]] == [None, None]

    def test_later_containers_see_earlier_changes(self) -> None:
        def number(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
            seen = int(pod.annotations.get("seen", "0"))
            return ContainerAdmission(claimed=False, changes=(AdmissionChange("annotation", "seen", str(seen + 1)),))

        pod = a_pod(*(a_container(name=f"c{at}") for at in range(3)))
        assert answered(pod, replace(acme.SPEC, admit=number)).pod.annotations["seen"] == "3"

    def test_a_vendor_that_claims_nothing_leaves_the_scheduler_alone(self) -> None:
        assert answered(a_pod(), self.spec(claims=False)).pod.scheduler == ""

    def test_a_vendors_refusal_is_the_answer(self) -> None:
        def refuse(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
            raise AdmissionDeniedError("no such slice", 500)

        assert denied(a_pod(), replace(acme.SPEC, admit=refuse)) == (500, "no such slice")

    def test_volcanos_vendors_have_no_say_in_hamis_webhook(self) -> None:
        other = replace(
            self.spec(),
            name=VendorName("Other"),
            dialect=Dialect.VOLCANO,
            resources=ResourceNames(count="other.example/card"),
            keys=replace(acme.SPEC.keys, allocated="other"),
        )
        answer = answered(a_pod(a_container({"other.example/card": 1})), acme.SPEC, other)
        assert (answer.claimed, answer.pod.scheduler) == ((), "")


def test_applying_a_change_leaves_the_original_pod_as_it_is() -> None:
    pod = a_pod()
    changed = applied(pod, PodChange(0, AdmissionChange("limit", CORES, "9")))
    assert CORES not in pod.containers[0].limits
    assert str(changed.containers[0].limits[CORES]) == "9"
