"""Rules of the charts that hold for all values, read out of the templates: who may write what, and what fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from koordinator_adapter.core import webhooks as koordinator
from neuron_topology.core.agent.annotations import KEYS
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from tests.contract.charts import allocator_files, schemas, templates
from tests.contract.charts.templates import Object

VOLCANO_VGPU, ALLOCATOR, KOORDINATOR = "volcano-vgpu", "allocator", "koordinator-adapter"
CHARTS = (VOLCANO_VGPU, ALLOCATOR, KOORDINATOR)
SERVERS = (ALLOCATOR, KOORDINATOR)
SHARED_PODS = {"library.verify": "test", "library.trust": "trust"}
"""Pods that a template of the library makes, by their component."""

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

ADDED = {(VOLCANO_VGPU, "agent"): ["FOWNER"]}
"""Capabilities that a container has all the same: the agent removes private folders of ended containers."""

every_chart = pytest.mark.parametrize("chart", CHARTS)
every_server = pytest.mark.parametrize("chart", SERVERS)


def of_kind(chart: str, *kinds: str) -> list[Object]:
    return [each for each in templates.every_object(chart) if each["kind"] in kinds]


def pods(chart: str) -> Iterator[tuple[str, Object]]:
    """Every pod of a chart, by the component that it is."""
    for each in of_kind(chart, "Pod", "Deployment", "DaemonSet", "Job", "CronJob"):
        spec = each["spec"]
        while "template" in spec or "jobTemplate" in spec:
            spec = spec.get("template", spec.get("jobTemplate"))["spec"]
        yield f"{each['kind']} {each['metadata']['name']}", spec


def webhooks(chart: str) -> dict[tuple[str, str], Object]:
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    found = [each for each in templates.rendered(chart, "everything") if each["kind"] in kinds]
    return {(each["kind"], hook["name"]): hook for each in found for hook in each["webhooks"]}


def test_webhooks_fail_and_wait_as_those_of_the_program() -> None:
    """Conditions and namespaces depend on values; the rest is the same for all."""
    target = WebhookTarget(configuration="one", service="one", namespace="here")
    built = [koordinator.mutating(target, injects=True), koordinator.validating(target)]
    expected = {(each["kind"], hook["name"]): hook for each in built for hook in each["webhooks"]}
    found = webhooks(KOORDINATOR)
    assert found.keys() == expected.keys()
    for key, hook in expected.items():
        for part in ("failurePolicy", "timeoutSeconds", "sideEffects", "matchPolicy", "reinvocationPolicy"):
            assert found[key].get(part) == hook.get(part), (key, part)


@pytest.mark.parametrize("name", allocator_files.FILES)
def test_what_the_allocators_templates_are_made_from_is_the_programs(name: str) -> None:
    assert (allocator_files.FOLDER / name).read_text() == allocator_files.text(name), (
        "write it anew: python -m tests.contract.charts.allocator_files"
    )


def test_a_marked_binding_fails_while_no_server_answers() -> None:
    hooks = yaml.safe_load((allocator_files.FOLDER / "webhooks.yaml").read_text())["webhooks"]
    (marked,) = (hook for hook in hooks if hook["name"].startswith("marked."))
    assert marked["failurePolicy"] == "Fail"


def test_the_names_of_a_vendors_resources_stand_where_the_settings_have_them() -> None:
    vendors = yaml.safe_load((allocator_files.FOLDER / "vendors.yaml").read_text())["vendors"]
    places = {each["name"]: (each["section"], each["word"]) for each in vendors}
    assert places["NVIDIA"] == ("devices.nvidia", "")
    assert places["XPU"] == ("devices.kunlun", "")
    assert places["Ascend310P"] == ("devices.vnpus.configs", "Ascend310P")
    assert places["BI-V150"] == ("devices.iluvatars", "BI-V150")
    assert places["Volcano-vGPU"] == ("volcano.deviceConfig.nvidia", "")
    keys = {name["name"]: name["key"] for each in vendors for name in each["resources"]}
    assert keys["metax-tech.com/vmemory"] == "resourceVMemoryName"
    assert keys["huawei.com/Ascend310P"] == "resourceName"
    assert keys["volcano.sh/vgpu-cores"] == "resourceCoreName"
    assert [name for name, key in keys.items() if not key] == ["aws.amazon.com/neurondevice"]


def test_a_record_waits_for_the_limits_that_go_with_it() -> None:
    (records,) = (hook for (_, name), hook in webhooks(KOORDINATOR).items() if name.startswith("records."))
    assert records["failurePolicy"] == "Fail"


def rules_of_policies(chart: str) -> dict[str, Object]:
    """The spec of each admission policy, by the first condition under which it is asked.

    The one on allocations is generated from the program (``test_policies.py``).
    """
    found = [each["spec"] for each in of_kind(chart, "ValidatingAdmissionPolicy")]
    return {spec["matchConditions"][0]["name"]: spec for spec in found if isinstance(spec, dict)}


def flat(expression: str) -> str:
    return re.sub(r"\s+", " ", expression).strip()


def kept(before: str, after: str, but: str) -> str:
    """The rule that a map stays as it was, but for some keys."""
    return (
        f"{after}.all(key, {but} || (key in {before} && {before}[key] == {after}[key]))"
        f" && {before}.all(key, {but} || key in {after})"
    )


def test_an_agent_writes_its_own_node_and_pods_alone() -> None:
    spec = rules_of_policies(VOLCANO_VGPU)["by-the-agent"]
    assert spec["failurePolicy"] == "Fail"
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert set(rule["resources"]) == {"nodes", "nodes/status", "pods"}
    assert rule["operations"] == ["UPDATE"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    token = "authentication.kubernetes.io/node-name"
    assert variables["node"] == f"'{token}' in request.userInfo.extra ? request.userInfo.extra['{token}'][0] : ''"
    assert (
        variables["subject"]
        == "request.resource.resource == 'pods' ? object.spec.?nodeName.orValue('') : object.metadata.name"
    )
    own = flat(spec["validations"][0]["expression"])
    assert own.endswith("(variables.node != '' && variables.subject == variables.node)")
    assert own.count("||") <= 1, "one other account alone, that of the Job at the end"
    assert own.startswith(("request.userInfo.username == '_uninstaller_' || (", "(variables.node"))


def test_an_agent_writes_no_spec_no_labels_and_its_own_annotations_alone() -> None:
    spec = rules_of_policies(VOLCANO_VGPU)["by-the-agent"]
    rules = {flat(each["expression"]) for each in spec["validations"]}
    ours = " || ".join(f"key.startsWith('{each}/')" for each in ("volcano.sh", "hami.io", "hami-plugins.io"))
    unchanged = ("finalizers", "ownerReferences")
    assert rules >= {
        "object.spec == oldObject.spec && object.metadata.?labels == oldObject.metadata.?labels",
        " && ".join(f"object.metadata.?{each} == oldObject.metadata.?{each}" for each in unchanged),
        kept("variables.before", "variables.after", ours),
        kept("variables.statusBefore", "variables.statusAfter", "key in ['capacity', 'allocatable']"),
    }


def test_the_allocator_writes_its_own_annotations_of_nodes_alone() -> None:
    spec = rules_of_policies(ALLOCATOR)["by-the-allocator"]
    assert spec["failurePolicy"] == "Fail"
    assert {flat(each["expression"]) for each in spec["validations"]} == {
        "object.spec == oldObject.spec",
        " && ".join(
            f"object.metadata.?{each} == oldObject.metadata.?{each}" for each in ("finalizers", "ownerReferences")
        ),
        kept("variables.labelsBefore", "variables.labelsAfter", "key in variables.ownLabels"),
        kept("variables.before", "variables.after", "key in variables.own"),
    }


def test_the_neuron_agent_writes_its_own_annotations_of_its_own_node_alone() -> None:
    spec = rules_of_policies(ALLOCATOR)["by-the-neuron-agent"]
    assert spec["failurePolicy"] == "Fail"
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    assert variables["own"] == f"[{', '.join(map(repr, KEYS))}]"
    assert {flat(each["expression"]) for each in spec["validations"]} == {
        "variables.node != '' && object.metadata.name == variables.node",
        "object.spec == oldObject.spec && object.metadata.?labels == oldObject.metadata.?labels",
        " && ".join(
            f"object.metadata.?{each} == oldObject.metadata.?{each}" for each in ("finalizers", "ownerReferences")
        ),
        kept("variables.before", "variables.after", "key in variables.own"),
    }
    (role,) = (each for each in templates.objects(ALLOCATOR, "neuron-agent.yaml") if each["kind"] == "ClusterRole")
    verbs = {tuple(rule["resources"]): rule["verbs"] for rule in role["rules"]}
    assert verbs == {
        ("nodes",): ["list", "watch", "patch"],
        ("pods",): ["list", "watch"],
        ("events",): ["create", "patch"],
    }


def test_the_neuron_agent_runs_on_every_known_instance_type() -> None:
    values = yaml.safe_load((schemas.CHARTS / ALLOCATOR / "values.yaml").read_text())["neuronAgent"]
    affinity = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((rule,),) = [term["matchExpressions"] for term in affinity["nodeSelectorTerms"]]
    assert rule["values"] == list(INSTANCE_TYPES)


def test_koordinators_part_on_nodes_writes_one_label_of_its_own_node() -> None:
    spec = rules_of_policies(KOORDINATOR)["by-the-part-on-nodes"]
    assert spec["failurePolicy"] == "Fail"
    assert {flat(each["expression"]) for each in spec["validations"]} == {
        "variables.node != '' && object.metadata.name == variables.node",
        "object.spec == oldObject.spec && object.metadata.?annotations == oldObject.metadata.?annotations",
        kept("variables.before", "variables.after", "key == 'koordinator.sh/gpu-isolation-provider'"),
    }


@every_chart
def test_policies_are_in_force_and_deny(chart: str) -> None:
    policies = of_kind(chart, "ValidatingAdmissionPolicy")
    bound = {each["spec"]["policyName"]: each["spec"] for each in of_kind(chart, "ValidatingAdmissionPolicyBinding")}
    assert bound.keys() == {each["metadata"]["name"] for each in policies}
    for spec in bound.values():
        assert spec["validationActions"] == ["Deny"]
        assert set(spec) == {"policyName", "validationActions"}, "of all namespaces and objects"


@every_chart
def test_every_container_drops_all_capabilities(chart: str) -> None:
    """Privileged is an exception that values ask for."""
    for pod, spec in pods(chart):
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["capabilities"]["drop"] == ["ALL"], pod
            assert context["capabilities"].get("add", []) == ADDED.get((chart, container["name"]), []), pod
            assert context["allowPrivilegeEscalation"] is False, pod
            assert context["readOnlyRootFilesystem"] is True, pod


@every_server
def test_secrets_are_read_by_name_alone(chart: str) -> None:
    roles = of_kind(chart, "Role", "ClusterRole")
    assert roles
    rules = [(role, rule) for role in roles for rule in role["rules"] if "secrets" in rule["resources"]]
    assert rules
    for role, rule in rules:
        assert role["kind"] == "Role"
        assert rule["resources"] == ["secrets"]
        assert set(rule["verbs"]) <= {"get", "patch"}
        (name,) = rule["resourceNames"]
        assert name.startswith("_include_library.certificateSecret_")


@every_server
def test_only_an_account_that_helm_deletes_again_may_write_webhook_configurations(chart: str) -> None:
    """A user who may write one can have any pod of the cluster rewritten, and no admission policy applies there."""
    roles = of_kind(chart, "Role", "ClusterRole")
    group = "admissionregistration.k8s.io"
    ((role, rule),) = [(role, rule) for role in roles for rule in role["rules"] if group in rule["apiGroups"]]
    assert rule["resourceNames"] == ["_include_library.webhookConfiguration_context_"]
    assert rule["verbs"] == ["get", "patch"]
    assert role in templates.objects(chart, "trust.yaml")
    whole = templates.rendered(chart, "defaults")
    hooks = [each for each in whole if "post-install" in str(each["metadata"].get("annotations"))]
    assert sorted(each["kind"] for each in hooks) == [
        "ClusterRole", "ClusterRoleBinding", "Job", "Role", "RoleBinding", "ServiceAccount"
    ]  # fmt: skip
    for each in hooks:
        notes = each["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "post-install,post-upgrade,post-rollback"
        assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    named = {each["metadata"]["name"] for each in hooks if each["kind"] in {"ServiceAccount", "Job"}}
    subjects = [subject["name"] for each in hooks for subject in each.get("subjects", [])]
    assert len(subjects) == 2
    assert set(subjects) == named


@every_chart
def test_a_network_policy_stands_before_every_pod(chart: str) -> None:
    folder = schemas.CHARTS / chart / "templates"
    named = r'(?:selector|labels)" \(dict "root" \. "component" "(\w+)"'
    pods_of = {each for file in folder.glob("**/*.yaml") for each in ran(file, named)}
    text = (folder / "network.yaml").read_text()
    (others,) = re.findall(r"operator: In, values: \[([\w, ]+)\]", text)
    chosen = re.findall(r'podSelector:\n    matchLabels: .*"component" "(\w+)"', text)
    assert {*chosen, *others.split(", ")} == pods_of
    for policy in of_kind(chart, "NetworkPolicy"):
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        for rule in policy["spec"].get("ingress", []):
            assert rule["ports"] == [{"port": "webhooks"}] or "from" in rule
    values = yaml.safe_load((folder.parent / "values.yaml").read_text())["networkPolicy"]
    assert values["enabled"] is True
    assert values["scrapers"]


def ran(file: Path, pattern: str) -> set[str]:
    """The components whose pods a template makes."""
    text = file.read_text()
    shared = {component for name, component in SHARED_PODS.items() if f'include "{name}" ' in text}
    own = re.findall(pattern, text) if re.search(r"^ *containers:$", text, re.MULTILINE) else []
    return {*shared, *own}


@every_chart
def test_no_right_is_wide(chart: str) -> None:
    for role in of_kind(chart, "Role", "ClusterRole"):
        for rule in role["rules"]:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not words & {"*", "escalate", "bind", "impersonate"}, role["metadata"]["name"]


@every_chart
def test_the_token_is_mounted_in_our_own_containers_alone(chart: str) -> None:
    """An image of another project, as that of HAMi-core's library, would act with the agent's rights."""
    for pod, spec in pods(chart):
        if not spec.get("initContainers"):
            continue
        assert spec["automountServiceAccountToken"] is False, pod
        (token,) = (each for each in spec["volumes"] if "projected" in each)
        (source,) = (each for each in token["projected"]["sources"] if "serviceAccountToken" in each)
        assert source["serviceAccountToken"]["expirationSeconds"] <= 3600
        for container in [*spec["containers"], *spec["initContainers"]]:
            mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
            ours = "_include_library.image_" in container["image"]
            assert mounted.get(token["name"]) == (SERVICE_ACCOUNT if ours else None), f"{pod} {container['name']}"
