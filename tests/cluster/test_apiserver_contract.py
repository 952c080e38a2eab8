"""The real API server keeps what the embedded one is built to: the same cases, one test each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.keeping import keeping
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.peers import KUBERNETES, chosen
from tests.contract.apiserver import Api, Case, cases_of

OF_THE_RELEASE = cases_of(chosen("KUBERNETES", KUBERNETES))


@pytest.fixture(scope="module")
def kept(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[set[str]]:
    def versions() -> dict[str, str]:
        version: str = control_plane.api.get("/version")["gitVersion"]
        return {"kube-apiserver": version.removeprefix("v")}

    with keeping(request.config, "apiserver", [case.claim for case in OF_THE_RELEASE], versions) as found:
        yield found


@pytest.fixture(scope="module")
def contract_node(control_plane: ControlPlane) -> Iterator[None]:
    """The node that the cases bind their pods to: the pod garbage collector ends the pods of a node that is none."""
    with Api(control_plane.url, token=control_plane.admin_token, ca=control_plane.pki.ca) as api:
        node = {"metadata": {"name": "contract-node"}, "spec": {"unschedulable": True}}
        api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
        api.remember("/api/v1/nodes/contract-node")
        yield


@pytest.mark.usefixtures("contract_node")
@pytest.mark.parametrize("case", OF_THE_RELEASE, ids=str)
def test_the_real_api_server_keeps_what_kubernetes_promises(
    case: Case, control_plane: ControlPlane, kept: set[str]
) -> None:
    with Api(control_plane.url, token=control_plane.admin_token, ca=control_plane.pki.ca) as api:
        case.check(api)
    kept.add(case.claim)
