"""HAMi's own example manifests: what each asks for after the webhook."""

from typing import Any

from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.mutate import WebhookSettings, admit
from tests.golden import cases, notation

DEVIATIONS: dict[str, str] = {}
"""What differs on purpose: why. Those manifests are denied."""


@cases.each("hami-vendors/examples.yaml")
def test_manifest_asks_for_what_its_vector_says(case: cases.Case) -> None:
    config = case.given.get("config") or {}
    for containers, expected in zip(case.given["pods"], case.expect["requests"], strict=True):
        pod = notation.pod(
            *(notation.container(given, name=f"c{at}") for at, given in enumerate(containers)),
            annotations=case.given["annotations"],
        )
        admission = admit(pod, notation.registry(), WebhookSettings())
        assert admission.allowed is (case.id not in DEVIATIONS), admission.message
        if not admission.allowed:
            continue
        demand = demand_of(admission.pod, notation.registry())
        for container, wanted in zip(demand.containers, expected, strict=True):
            assert len(container.requests) == (0 if wanted is None else 1)
            for request in container.requests:
                assert met(request, wanted, config)


def met(request: Any, wanted: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a request is that of the vector."""
    numbers = {name: value for name, value in wanted.items() if name != "backend"}
    spec = notation.vendor(request.vendor)
    return request.vendor == wanted["backend"] and notation.same_request(spec, request, numbers, config)
