"""Each value that charts share does what its comment says, in every chart and workload that has it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.api import Object
from tests.cluster.chart_values import Values
from tests.cluster.helm import ALLOCATOR, KOORDINATOR, UMBRELLA, VOLCANO_VGPU, Helm, HelmError, objects, of_kind

CHARTS = (VOLCANO_VGPU, ALLOCATOR, KOORDINATOR)
_ON: Mapping[Path, Values] = {
    VOLCANO_VGPU: {},
    ALLOCATOR: {
        "vendors": ["NVIDIA"],
        "kubeScheduler": {"enabled": True, "image": "a/b:1"},
        "neuronAgent": {"enabled": True},
    },
    KOORDINATOR: {"node": {"enabled": True}},
}
WORKLOADS: Mapping[str, tuple[Path, str, str]] = {
    "agent": (VOLCANO_VGPU, "agent", "one-volcano-vgpu-agent"),
    "allocator": (ALLOCATOR, "", "one-allocator"),
    "kube-scheduler": (ALLOCATOR, "kubeScheduler", "one-allocator-scheduler"),
    "neuron agent": (ALLOCATOR, "neuronAgent", "one-allocator-neuron-agent"),
    "adapter": (KOORDINATOR, "", "one-koordinator-adapter"),
    "adapter on nodes": (KOORDINATOR, "node", "one-koordinator-adapter-node"),
}
"""Every Deployment and DaemonSet: its chart, the part of the values that is about it, and its name."""

every_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
every_server = pytest.mark.parametrize("chart", [ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
every_workload = pytest.mark.parametrize("which", WORKLOADS)


@pytest.fixture
def helm(programs: Mapping[str, Path], tmp_path: Path) -> Helm:
    return Helm(programs["helm3"], tmp_path / "helm")


def all_of(helm: Helm, chart: Path, values: Values) -> list[Object]:
    """A chart's objects with all of its parts."""
    return objects(helm.template(chart, {**_ON[chart], **values}))


def workload(helm: Helm, which: str, values: Values) -> Object:
    """A workload of which these values are set."""
    chart, part, name = WORKLOADS[which]
    told: dict[str, Any] = {key: dict(held) if isinstance(held, Mapping) else held for key, held in _ON[chart].items()}
    if part:
        told[part] = {**told.get(part, {}), **values}
    else:
        told |= values
    found = objects(helm.template(chart, told))
    (each,) = (
        each for each in found if each["kind"] in {"Deployment", "DaemonSet"} and each["metadata"]["name"] == name
    )
    return each


def refused(helm: Helm, chart: Path, values: Values) -> str:
    """What Helm says of values that are wrong."""
    with pytest.raises(HelmError) as caught:
        all_of(helm, chart, values)
    return str(caught.value)


@every_workload
def test_a_pod_has_what_the_values_of_its_workload_say(helm: Helm, which: str) -> None:
    """No value is for one workload alone."""
    told: Values = {
        "podSecurityContext": {"supplementalGroups": [7], "seccompProfile": {"type": "Localhost"}},
        "securityContext": {"readOnlyRootFilesystem": False},
        "dnsPolicy": "Default",
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["api"]}],
        "extraArgs": ["--more"],
        "extraEnv": [{"name": "MORE", "value": "1"}],
        "envFrom": [{"configMapRef": {"name": "more"}}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "extraContainers": [{"name": "beside", "image": "a:1"}],
        "livenessProbe": {"periodSeconds": 91},
        "readinessProbe": {"periodSeconds": 92},
        "startupProbe": {"periodSeconds": 93},
        "podLabels": {"team": "a"},
        "podAnnotations": {"note": "b"},
        "revisionHistoryLimit": 3,
    }
    whole = workload(helm, which, told)
    made = whole["spec"]["template"]
    spec, (container, beside) = made["spec"], made["spec"]["containers"]
    assert spec["securityContext"]["supplementalGroups"] == [7]
    assert spec["securityContext"]["seccompProfile"] == {"type": "Localhost"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is False
    assert (spec["dnsPolicy"], spec["hostAliases"]) == ("Default", told["hostAliases"])
    words = container.get("args") or container["command"]
    assert words[-1] == "--more"
    assert told["extraEnv"][0] in container["env"]
    assert container["envFrom"] == told["envFrom"]
    assert told["extraVolumes"][0] in spec["volumes"]
    assert told["extraVolumeMounts"][0] in container["volumeMounts"]
    assert beside == told["extraContainers"][0]
    assert [container[f"{name}Probe"]["periodSeconds"] for name in ("liveness", "readiness", "startup")] == [91, 92, 93]
    assert all("httpGet" in container[f"{name}Probe"] for name in ("liveness", "readiness", "startup"))
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["annotations"]["note"] == "b"
    assert whole["spec"]["revisionHistoryLimit"] == 3


@every_workload
def test_annotations_of_a_workload_are_not_those_of_its_pods(helm: Helm, which: str) -> None:
    kind = workload(helm, which, {})["kind"]
    name = "deploymentAnnotations" if kind == "Deployment" else "daemonSetAnnotations"
    whole = workload(helm, which, {name: {"reloader": "on"}})
    assert whole["metadata"]["annotations"] == {"reloader": "on"}
    assert "reloader" not in whole["spec"]["template"]["metadata"]["annotations"]


@pytest.mark.parametrize("which", ["allocator", "kube-scheduler", "adapter"])
def test_a_deployment_has_strategy_spread_and_budget_of_the_values(helm: Helm, which: str) -> None:
    zones = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    own = {**zones, "topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}
    told: Values = {
        "strategy": {"type": "Recreate", "rollingUpdate": None},
        "topologySpreadConstraints": [zones, own],
        "automountServiceAccountToken": False,
    }
    whole = workload(helm, which, told)
    assert whole["spec"]["strategy"] == {"type": "Recreate"}
    first, second = whole["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert first == {**zones, "labelSelector": whole["spec"]["selector"]}
    assert second == own
    assert whole["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"minAvailable": 0}, {"minAvailable": 0}),
        ({"minAvailable": "50%"}, {"minAvailable": "50%"}),
        ({"maxUnavailable": 2}, {"maxUnavailable": 2}),
    ],
)
@pytest.mark.parametrize(("chart", "part"), [(ALLOCATOR, ""), (ALLOCATOR, "kubeScheduler"), (KOORDINATOR, "")])
def test_a_budget_is_a_least_or_a_most(helm: Helm, chart: Path, part: str, budget: Values, expected: Values) -> None:
    def told(wanted: Values) -> Values:
        own = {"replicas": 2, "podDisruptionBudget": {"enabled": True, **wanted}}
        scheduler = {"enabled": True, "image": "a/b:1"}
        return {"vendors": ["NVIDIA"], "kubeScheduler": {**scheduler, **own}} if part else own

    (found,) = of_kind(objects(helm.template(chart, told(budget))), "PodDisruptionBudget")
    spec = {key: held for key, held in found["spec"].items() if key.endswith("vailable")}
    assert spec == expected
    with pytest.raises(HelmError, match="podDisruptionBudget: minAvailable and maxUnavailable are two ways"):
        helm.template(chart, told({"minAvailable": 1, "maxUnavailable": 1}))


@every_chart
def test_labels_and_annotations_of_all_are_on_all_and_select_nothing(helm: Helm, chart: Path) -> None:
    told: Values = {
        "global": {"labels": {"cost": "1", "team": "theirs"}, "annotations": {"owner": "x"}},
        "commonLabels": {"team": "ours", "app.kubernetes.io/part-of": "platform"},
        "commonAnnotations": {"wiki": "w"},
        "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    }
    found = all_of(helm, chart, told)
    expected = {"cost": "1", "team": "ours", "app.kubernetes.io/part-of": "platform"}
    for each in found:
        assert expected.items() <= each["metadata"]["labels"].items(), each["metadata"]["name"]
        assert {"owner": "x", "wiki": "w"}.items() <= each["metadata"]["annotations"].items()
        if each["kind"] in {"Deployment", "DaemonSet"}:
            assert expected.items() <= each["spec"]["template"]["metadata"]["labels"].items()
            assert not expected.keys() & each["spec"]["selector"]["matchLabels"].keys()


@every_chart
@pytest.mark.parametrize("key", ["app.kubernetes.io/name", "helm.sh/chart"])
def test_a_label_of_the_chart_is_not_replaced(helm: Helm, chart: Path, key: str) -> None:
    assert f"commonLabels: {key} is the chart's own; remove it" in refused(helm, chart, {"commonLabels": {key: "a"}})
    told = {"global": {"labels": {key: "a"}}}
    assert f"global.labels: {key} is the chart's own; remove it" in refused(helm, chart, told)


@pytest.mark.parametrize(
    ("value", "held", "key"),
    [
        ("podLabels", {"app.kubernetes.io/component": "x"}, "app.kubernetes.io/component"),
        ("podAnnotations", {"checksum/settings": "x"}, "checksum/settings"),
        ("extraEnv", [{"name": "NODE_NAME", "value": "x"}, {"name": "POD_NAME", "value": "x"}], "_NAME"),
    ],
)
@every_workload
def test_what_the_chart_sets_itself_is_not_set_twice(helm: Helm, which: str, value: str, held: Any, key: str) -> None:
    if which == "kube-scheduler" and value == "extraEnv":
        assert workload(helm, which, {value: held})  # that container has no variables of its own
        return
    with pytest.raises(HelmError) as caught:
        workload(helm, which, {value: held})
    assert f"{value}: " in str(caught.value)
    assert f"{key} is the chart's own; remove it" in str(caught.value)


@every_chart
def test_all_objects_may_be_in_another_namespace(helm: Helm, chart: Path) -> None:
    found = all_of(helm, chart, {"namespaceOverride": "theirs"})
    theirs = {"theirs", "kube-system", "volcano-system", None}
    assert {each["metadata"].get("namespace") for each in found} <= theirs
    assert all(subject["namespace"] == "theirs" for each in found for subject in each.get("subjects", []))
    assert "here" not in yaml.safe_dump_all(found).replace("where", "").replace("there", "").split()
    assert not [each for each in found if each["metadata"]["name"].startswith("here.")]


@every_chart
def test_objects_of_the_operators_own_are_part_of_the_release(helm: Helm, chart: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-{{ .Release.Name }}}"
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}, "data": {"a": "{{ $labels.pod }}"}}
    found = all_of(helm, chart, {"extraObjects": [text, plain]})
    assert plain in found
    assert [each for each in found if each["metadata"]["name"] == "of-one"]


@every_chart
def test_openshift_chooses_users_and_groups_itself(helm: Helm, chart: Path) -> None:
    """Its SCC restricted-v2 admits no pod that names a user outside of the namespace's range."""
    found = all_of(helm, chart, {"global": {"openshift": True}})
    checked = 0
    for each in found:
        spec = each["spec"] if each["kind"] == "Pod" else each.get("spec", {}).get("template", {}).get("spec")
        if spec is None or each["kind"] == "DaemonSet":
            continue
        contexts = [spec["securityContext"], *(each["securityContext"] for each in spec["containers"])]
        assert not [context for context in contexts if {"runAsUser", "runAsGroup", "fsGroup"} & context.keys()]
        assert spec["securityContext"]["runAsNonRoot"] is True
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize("which", ["allocator", "adapter"])
def test_null_removes_a_field_of_a_security_context(helm: Helm, which: str) -> None:
    whole = workload(helm, which, {"podSecurityContext": {"runAsUser": None, "fsGroup": 7}})
    assert whole["spec"]["template"]["spec"]["securityContext"]["fsGroup"] == 7


@every_chart
def test_pods_on_the_network_of_their_host_find_services(helm: Helm, chart: Path) -> None:
    """`helm test` asks the server by the name of its Service, which a host's DNS server does not know."""
    part: Values = {"agent": {"hostNetwork": True}} if chart == VOLCANO_VGPU else {"hostNetwork": True}
    found = objects(helm.template(chart, part))
    specs = [each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"] for each in found
             if each["kind"] in {"Pod", "Deployment", "DaemonSet", "Job"}]  # fmt: skip
    assert len(specs) >= 3
    assert all(spec["hostNetwork"] for spec in specs)
    assert {spec["dnsPolicy"] for spec in specs} == {"ClusterFirstWithHostNet"}


@every_server
def test_the_service_is_as_the_values_have_it(helm: Helm, chart: Path) -> None:
    told = {
        "type": "LoadBalancer",
        "labels": {"a": "b"},
        "annotations": {"lb": "internal"},
        "ipFamilyPolicy": "PreferDualStack",
        "ipFamilies": ["IPv6", "IPv4"],
    }
    (service,) = of_kind(objects(helm.template(chart, {"service": told})), "Service")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["labels"]["a"] == "b"
    assert service["metadata"]["annotations"] == {"lb": "internal"}
    assert (service["spec"]["ipFamilyPolicy"], service["spec"]["ipFamilies"]) == ("PreferDualStack", ["IPv6", "IPv4"])


@every_server
def test_webhooks_wait_fail_and_select_as_the_values_say(helm: Helm, chart: Path) -> None:
    """Those of Bindings and records stay strict, or a pod would start without its allocation."""
    told: Values = {
        "timeoutSeconds": 9,
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"env": "prod"}},
        "objectSelector": {"matchExpressions": [{"key": "legacy", "operator": "DoesNotExist"}]},
    }
    settings: Values = {"settings": {"injection": {"mode": "auto"}}} if chart == KOORDINATOR else {}
    found = objects(helm.template(chart, {"webhooks": told, **settings}))
    hooks = [hook for each in found if each["kind"].endswith("WebhookConfiguration") for hook in each["webhooks"]]
    strict = {"placed", "marked", "unmarked", "records"}
    in_prod = {"key": "env", "operator": "In", "values": ["prod"]}
    for hook in hooks:
        assert hook["timeoutSeconds"] == 9
        assert in_prod in hook["namespaceSelector"]["matchExpressions"]
        wanted = told["objectSelector"]["matchExpressions"][0] in hook.get("objectSelector", {}).get(
            "matchExpressions", []
        )
        kept = hook["name"].partition(".")[0] in strict
        assert wanted is not kept, hook["name"]
        assert kept or hook["failurePolicy"] == "Ignore"
    (binding,) = (hook for hook in hooks if hook["name"].startswith(("marked.", "records.")))
    assert binding["failurePolicy"] == "Fail"


@pytest.mark.parametrize("way", ["podMonitor", "serviceMonitor"])
@every_chart
def test_a_monitor_relabels_and_times_out_as_the_values_say(helm: Helm, chart: Path, way: str) -> None:
    rules = [{"action": "labeldrop", "regex": "pod"}]
    told = {"enabled": True, "scrapeTimeout": "9s", "relabelings": rules, "metricRelabelings": rules}
    found = [each for each in all_of(helm, chart, {"monitoring": {way: told}}) if each["kind"].endswith("Monitor")]
    assert found
    for each in found:
        (endpoint,) = each["spec"].get("endpoints") or each["spec"]["podMetricsEndpoints"]
        assert endpoint["scrapeTimeout"] == "9s"
        assert endpoint["relabelings"] == endpoint["metricRelabelings"] == rules


@pytest.mark.parametrize(
    ("chart", "values", "sentence"),
    [
        (KOORDINATOR, {"node": {"library": {"path": None}}}, "at '/node/library': missing property 'path'"),
        (KOORDINATOR, {"ports": {"plain": None}}, "at '/ports': missing property 'plain'"),
        (ALLOCATOR, {"image": {"repository": None}}, "at '/image': missing property 'repository'"),
        (VOLCANO_VGPU, {"agent": {"port": None}}, "at '/agent': missing property 'port'"),
        (UMBRELLA, {"allocator": {"image": {"repository": None}}}, "'/image': missing property 'repository'"),
    ],
)  # fmt: skip
def test_null_where_a_value_is_needed_is_refused_by_name(
    helm: Helm, chart: Path, values: Values, sentence: str
) -> None:
    with pytest.raises(HelmError) as caught:
        helm.template(chart, values)
    assert sentence in str(caught.value)


def test_two_sources_of_the_library_are_refused(helm: Helm) -> None:
    told = {"node": {"enabled": True, "library": {"image": "a:1", "hostPath": "/b"}}}
    assert "node.library: image and hostPath are two ways" in refused(helm, KOORDINATOR, told)


@every_chart
def test_without_rbac_no_role_is_made_and_accounts_are_those_of_the_values(helm: Helm, chart: Path) -> None:
    """The Jobs' as well, whose roles are the operator's to make."""
    mine = {"create": False, "name": "mine"}
    told: dict[str, Any] = {"rbac": {"create": False}, "uninstall": {"serviceAccount": mine}}
    told |= {"certificate": {"serviceAccount": mine}} if chart != VOLCANO_VGPU else {}
    found = all_of(helm, chart, told)
    assert not [each for each in found if "Role" in each["kind"]]
    jobs = of_kind(found, "Job")
    assert jobs
    assert {each["spec"]["template"]["spec"]["serviceAccountName"] for each in jobs} == {"mine"}
    accounts = {each["metadata"]["name"] for each in of_kind(found, "ServiceAccount")}
    assert not {name for name in accounts if name.endswith(("-trust", "-uninstall"))}


@every_chart
def test_pull_secrets_are_taken_as_names_too(helm: Helm, chart: Path) -> None:
    found = all_of(helm, chart, {"imagePullSecrets": ["theirs", {"name": "mine"}]})
    workloads = [each for each in found if each["kind"] in {"Deployment", "DaemonSet"}]
    for each in workloads:
        assert each["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "theirs"}, {"name": "mine"}]


@every_chart
def test_a_version_with_a_plus_is_a_label_and_a_tag(helm: Helm, tmp_path: Path, chart: Path) -> None:
    whole = shutil.copytree(UMBRELLA, tmp_path / UMBRELLA.name, symlinks=True)
    described = whole / chart.relative_to(UMBRELLA) / "Chart.yaml"
    build = "0.1.0+build.7"
    described.write_text(described.read_text().replace("ersion: 0.1.0\n", f"ersion: {build}\n").replace(
        f"  version: {build}\n", "  version: 0.1.0\n"))  # fmt: skip
    needed = {
        "global": {"imageRegistry": "registry.example"},
        **({"agent": {"nodeSelector": {"a": "b"}}} if chart == VOLCANO_VGPU else {}),
    }
    found = objects(helm.run("template", "one", str(described.parent), "--kube-version", "1.34", values=needed))
    for each in found:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/version"] == "0.1.0_build.7"
        assert labels["helm.sh/chart"] == f"{chart.name}-0.1.0_build.7"
    assert "+build" not in yaml.safe_dump_all(found)


@every_chart
def test_tags_are_the_parents_and_a_condition_may_be_a_key_of_its_own(helm: Helm, tmp_path: Path, chart: Path) -> None:
    assert all_of(helm, chart, {"tags": {"accelerators": True}})
    parent = tmp_path / "platform"
    parent.mkdir()
    needed = {"name": chart.name, "version": "0.1.0", "repository": f"file://{chart}", "condition": "wanted"}
    described = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [needed]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(described))
    (parent / "values.yaml").write_text(yaml.safe_dump({"wanted": False}))
    helm.run("dependency", "build", str(parent))
    assert not objects(helm.template(parent))


@every_chart
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"podSecurityContext": {"runAsUsr": 1}}, "additional properties 'runAsUsr' not allowed"),
        ({"livenessProbe": {"exec": {}}}, "additional properties 'exec' not allowed"),
        ({"dnsPolicy": "Cluster"}, "value must be one of '', 'ClusterFirst'"),
        ({"extraEnv": [{"value": "x"}]}, "missing property 'name'"),
    ],
)
def test_the_schema_is_strict_about_them(helm: Helm, chart: Path, values: Values, sentence: str) -> None:
    told = {"agent": values} if chart == VOLCANO_VGPU else values
    assert sentence in refused(helm, chart, told)
