"""``clean --release`` and ``verify``: what an installation leaves, and what proves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hami_plugins.cli.kit import probe
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.wire.node_devices import AGENTS_KEY
from tests.schema import published
from tests.unit.volcano_vgpu.cards import settings
from volcano_vgpu.commands.uninstallation import AgentRelease, Uninstaller, for_good
from volcano_vgpu.commands.verification import verdict, verify

OURS = "GPU-aaaaaaaa-1,10,40960,NVIDIA-A100,true,hami-core:"
RELEASE = AgentRelease("system", "one-volcano-vgpu")
REGISTER = "volcano.sh/node-vgpu-register"
SUMS = {"volcano.sh/vgpu-memory": "40960", "volcano.sh/vgpu-cores": "100", "volcano.sh/vgpu-number": "10"}


@pytest.fixture
def api() -> Iterator[KubeClient]:
    with ApiServer() as server:
        client = connect_to(server.url, component="volcano-vgpu")
        client.create("/api/v1/namespaces", {"metadata": {"name": "system"}})
        yield client
        client.close()


def workload(api: KubeClient, kind: str, name: str) -> str:
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": name}}, "template": {}}}
    made = api.create(f"/apis/apps/v1/namespaces/system/{kind}", body)
    return str(made["metadata"]["uid"])


def served_node(api: KubeClient, name: str, owner: str, *, slots: str = "10") -> None:
    """A node with cards, and the pod of a DaemonSet on it."""
    mine = {"metadata": {"name": name, "annotations": {REGISTER: OURS, "other/key": "stays"}}}
    api.create("/api/v1/nodes", mine)
    offered = {**SUMS, "volcano.sh/vgpu-number": slots}
    api.merge_patch(paths.node_status(name), {"status": {"capacity": {"cpu": "4", **SUMS}, "allocatable": offered}})
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": owner}
    pod = {
        "metadata": {"name": f"agent-{name}", "ownerReferences": [reference]},
        "spec": {"nodeName": name, "containers": [{"name": "agent", "image": "i"}]},
    }
    api.create(paths.pods("system"), pod)


def installed(api: KubeClient) -> None:
    """Two releases, each with a node of its own; of the first also its server."""
    served_node(api, "n1", workload(api, "daemonsets", "one-volcano-vgpu-agent"))
    served_node(api, "n2", workload(api, "daemonsets", "two-volcano-vgpu-agent"))
    workload(api, "deployments", "one-volcano-vgpu-allocator")


def node(api: KubeClient, name: str) -> Any:
    return api.get(paths.node(name))


def test_a_release_is_removed_with_all_that_it_wrote_and_another_one_stays(api: KubeClient) -> None:
    installed(api)
    uninstaller = Uninstaller(api, settings(), RELEASE)
    promised = uninstaller.left()
    found = uninstaller.remove()
    assert found == promised
    assert not found.kept
    assert [line for line in found.removed if line.startswith("node n1")] == [
        f"node n1: annotation {REGISTER}",
        *(f"node n1: capacity {key}" for key in sorted(SUMS)),
    ]
    assert uninstaller.left().removed == ()
    cleaned, untouched = node(api, "n1"), node(api, "n2")
    assert cleaned["metadata"]["annotations"] == {"other/key": "stays"}
    assert cleaned["status"]["capacity"] == {"cpu": "4"}
    assert untouched["metadata"]["annotations"][REGISTER] == OURS
    assert api.get(paths.daemon_set("system", "two-volcano-vgpu-agent"))


def test_looking_removes_nothing(api: KubeClient) -> None:
    installed(api)
    before = node(api, "n1")
    assert len(Uninstaller(api, settings(), RELEASE).left().removed) == 5
    assert node(api, "n1") == before


def test_a_release_that_is_not_there_leaves_nothing(api: KubeClient) -> None:
    assert Uninstaller(api, settings(), AgentRelease("system", "never")).remove().removed == ()


def spoken_for(api: KubeClient, name: str, daemon_set: str) -> None:
    api.merge_patch(paths.node(name), {"metadata": {"annotations": {AGENTS_KEY: daemon_set}}})


def test_a_node_is_cleaned_when_its_agent_and_the_daemon_set_are_gone(api: KubeClient) -> None:
    """As after an uninstallation without hooks, and on a node that is no longer selected."""
    installed(api)
    spoken_for(api, "n1", RELEASE.daemon_set)
    spoken_for(api, "n2", "system/two-volcano-vgpu-agent")
    for path in (RELEASE.agents, paths.pod("system", "agent-n1")):
        api.delete(path)
    found = Uninstaller(api, settings(), RELEASE).remove()
    assert f"node n1: annotation {REGISTER}" in found.removed
    assert node(api, "n1")["metadata"]["annotations"] == {"other/key": "stays"}
    assert node(api, "n2")["metadata"]["annotations"][REGISTER] == OURS


def test_a_node_that_another_release_speaks_for_is_left_to_it(api: KubeClient) -> None:
    """Although an agent of this one also waits there."""
    installed(api)
    spoken_for(api, "n1", "system/two-volcano-vgpu-agent")
    assert not [line for line in Uninstaller(api, settings(), RELEASE).remove().removed if line.startswith("node")]
    assert node(api, "n1")["metadata"]["annotations"][REGISTER] == OURS


def test_agents_that_do_not_end_are_told_with_their_nodes_and_all_others_are_cleaned(api: KubeClient) -> None:
    installed(api)
    served_node(api, "n3", "nobody")
    spoken_for(api, "n3", RELEASE.daemon_set)
    api.merge_patch(RELEASE.agents, {"metadata": {"finalizers": ["foregroundDeletion"]}})
    slept: list[float] = []
    found = Uninstaller(api, settings(), RELEASE, patience=1.0, sleep=slept.append).remove()
    assert sum(slept) == 1.0
    late, pod = found.kept
    assert late.startswith(f"{RELEASE.agents}: its pods have not ended within 1 s")
    assert pod == "pod agent-n1 on node n1 has not ended, so the node was left alone"
    assert node(api, "n1")["metadata"]["annotations"][REGISTER] == OURS
    assert REGISTER not in node(api, "n3")["metadata"]["annotations"]


@pytest.mark.parametrize("text", ["", "one", "a/b/c", "/one", "system/"])
def test_a_release_has_a_namespace_and_a_name(text: str) -> None:
    with pytest.raises(ConfigError, match="write NAMESPACE/NAME"):
        AgentRelease.of(text)


def test_an_agent_goes_for_good_where_its_daemon_set_does(api: KubeClient) -> None:
    workload(api, "daemonsets", "agents")
    assert not for_good(api, "system/agents", "n1", {})
    assert not for_good(api, "", "n1", {})
    assert for_good(api, "system/others", "n1", {})
    path = paths.daemon_set("system", "agents")
    api.merge_patch(path, {"metadata": {"finalizers": ["foregroundDeletion"]}})
    api.delete(path)
    assert for_good(api, "system/agents", "n1", {})


def test_an_agent_goes_for_good_where_its_node_is_chosen_no_more(api: KubeClient) -> None:
    workload(api, "daemonsets", "agents")
    chosen = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "new"}}}}}
    api.merge_patch(paths.daemon_set("system", "agents"), chosen)
    assert for_good(api, "system/agents", "n1", {"pool": "old", "gpu": "on"})
    assert not for_good(api, "system/agents", "n1", {"pool": "new", "gpu": "on"})


@pytest.mark.parametrize(
    ("term", "goes"),
    [
        ({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["new"]}]}, True),
        ({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}, True),
    ],
)
def test_an_agent_goes_for_good_where_an_affinity_chooses_its_node_no_more(
    api: KubeClient, term: Mapping[str, object], *, goes: bool
) -> None:
    workload(api, "daemonsets", "agents")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    chosen = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}
    api.merge_patch(paths.daemon_set("system", "agents"), chosen)
    assert for_good(api, "system/agents", "n1", {"pool": "old"}) is goes


def test_the_allocator_of_a_release_is_left_to_its_own_command(api: KubeClient) -> None:
    installed(api)
    found = Uninstaller(api, settings(), RELEASE).remove()
    assert not found.kept
    assert api.get(paths.deployment("system", "one-volcano-vgpu-allocator"))
    assert REGISTER not in node(api, "n1")["metadata"]["annotations"]
    with pytest.raises(KubeError) as gone:
        api.get(RELEASE.agents)
    assert gone.value.status == 404


def test_an_agent_that_cannot_tell_comes_back() -> None:
    unreachable = connect_to("http://127.0.0.1:9", component="volcano-vgpu").within(0.2)
    assert not for_good(unreachable, "system/agents", "n1", {})


def test_nodes_that_offer_cards_prove_an_installation(api: KubeClient, capsys: pytest.CaptureFixture[str]) -> None:
    installed(api)
    status = verify(api, settings(), allocator="", nodes=True, patience=0, form=Form.TABLE)
    assert status == Exit.FINE
    assert "serves" in capsys.readouterr().out


def test_what_is_missing_is_said(api: KubeClient) -> None:
    found = verdict(api, settings(), allocator="http://127.0.0.1:9", nodes=True)
    assert not found.fine
    empty, away = found.complaints
    assert "nodeSelector, tolerations" in empty
    assert away.startswith("http://127.0.0.1:9: ")
    served_node(api, "n3", "uid", slots="0")
    (state,) = verdict(api, settings(), allocator="", nodes=True).nodes
    assert "the agent is not registered with the kubelet" in state.complaint


def test_an_address_that_is_none_is_not_waited_for(api: KubeClient) -> None:
    with pytest.raises(ConfigError, match=r"nonsense: not a server address; write http://NAME\.NAMESPACE\.svc:PORT"):
        verdict(api, settings(), allocator="nonsense", nodes=False)


def test_a_server_alone_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    slept: list[float] = []
    assert probe.verify("http://127.0.0.1:9", patience=2, sleep=slept.append) == Exit.FINDINGS
    assert "is a replica ready" in capsys.readouterr().out
    assert sum(slept) == 2
    with ApiServer() as server:  # which has a /readyz, too
        assert probe.verify(server.url, patience=0) == Exit.FINE


def test_it_waits_as_long_as_it_is_told(api: KubeClient, capsys: pytest.CaptureFixture[str]) -> None:
    slept: list[float] = []

    def arrive(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            installed(api)

    status = verify(api, settings(), allocator="", nodes=True, patience=9, form=Form.JSON, sleep=arrive)
    assert (status, len(slept)) == (Exit.FINE, 2)
    assert published(capsys.readouterr().out)["fine"] is True
