"""What the admission webhook decides about a pod as a whole."""

from dataclasses import replace

from hami_plugins.engine.mutate import OTHER_SCHEDULER, WebhookSettings, admit
from hami_plugins.model.units import NodeName
from tests.golden import cases, notation


@cases.each("hami-vendors/webhook-pod.yaml")
def test_webhook_treats_the_pod_as_its_vector_says(case: cases.Case) -> None:
    given, expect = case.given, case.expect
    limits = {"nvidia.com/gpu": "1"} if given.get("any_backend_true") else {}
    if given.get("any_backend_error"):
        limits = {"mthreads.com/vgpu": "0"}
    container = notation.container({"limits": limits})
    if given.get("privileged_container"):
        container = replace(container, privileged=True)
    pod = replace(
        notation.pod(container),
        scheduler=given.get("scheduler_name", ""),
        node=NodeName(given["node_name"]) if "node_name" in given else None,
    )
    scheduler = given.get("configured_scheduler_name", "hami-scheduler")
    found = admit(pod, notation.registry(), WebhookSettings(scheduler=scheduler))
    if "denied" in expect:
        assert found.allowed is not expect["denied"]
    if "scheduler_name" in expect:
        assert found.pod.scheduler == expect["scheduler_name"]
    if "http_status" in expect:
        assert (found.allowed, found.code) == (False, expect["http_status"])
    if expect.get("skipped"):
        assert (found.allowed, found.changes, found.message) == (True, (), OTHER_SCHEDULER)
