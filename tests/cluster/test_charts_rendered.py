"""What Helm makes of the charts, without a cluster: the same in versions 3 and 4, every time, and nothing else."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.allocations.manifests import (
    account_policies,
    allocation_policy,
    chart_vendor,
    kube_scheduler_configuration,
    stale_allocations,
    webhooks,
)
from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.allocator.app import hooks_of, product_of
from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.allocator.settings import SETTINGS, AllocatorSettings
from hami_plugins.cli.allocator_server import (
    extension_of,
    ignored_by_scheduler,
    scheduler_resources,
    timeout_of,
    vendors_of,
)
from hami_plugins.vendors import nvidia
from koordinator_adapter.core import webhooks as koordinator
from koordinator_adapter.core.devices import sums
from koordinator_adapter.server.app import policy_of
from koordinator_adapter.server.settings import AdapterSettings
from tests.cluster.api import Object
from tests.cluster.chart_values import (
    ALLOCATOR_SETS,
    CASES,
    KOORDINATOR_SETS,
    REFUSED,
    REFUSED_BY_THE_ALLOCATOR,
    REFUSED_BY_THE_UMBRELLA,
    Case,
    Values,
)
from tests.cluster.helm import (
    ALLOCATOR,
    CHARTS,
    KOORDINATOR,
    NEEDED,
    UMBRELLA,
    VERSIONS,
    VOLCANO_VGPU,
    Helm,
    HelmError,
    is_hook,
    laid,
    objects,
    of_kind,
    pod_specs,
)
from tests.contract.charts import policies
from tests.vendor_guide import Guide

GOLDEN = Path("tests/golden/charts").absolute()
FULL_NAME = "one-volcano-vgpu"
LIBRARY = "docker.io/projecthami/hami:v2.10.0"
RESTRICTED = {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}

every_set = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(params=VERSIONS)
def helm(programs: Mapping[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Helm:
    return Helm(programs[request.param], tmp_path / "helm")


@pytest.fixture
def one_helm(programs: Mapping[str, Path], tmp_path: Path) -> Helm:
    return Helm(programs["helm3"], tmp_path / "helm")


def rendered(helm: Helm, case: Case) -> list[Object]:
    return objects(helm.template(CHARTS / case.chart, case.values))


def without_sums(text: str) -> list[Object]:
    """The objects without the sums of their settings."""
    return objects(re.sub(r"[0-9a-f]{64}", "SUM", text))


def node_policies(found: Sequence[Object]) -> list[Object]:
    """The admission policies but that on allocations."""
    policies = of_kind(found, "ValidatingAdmissionPolicy")
    return [each for each in policies if not each["metadata"]["name"].endswith("-allocations")]


def as_golden(found: Sequence[Object]) -> str:
    ordered = sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"]))
    return yaml.safe_dump_all(ordered, sort_keys=True, width=140)


@pytest.mark.parametrize("chart", [UMBRELLA, VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_lint_finds_nothing(helm: Helm, chart: Path) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", "--kube-version", "1.34", str(chart))


@every_set
def test_rendering_is_as_it_was_and_the_same_every_time(helm: Helm, case: Case, *, update_golden: bool) -> None:
    first, second = (helm.template(CHARTS / case.chart, case.values) for _ in range(2))
    assert first == second
    file = GOLDEN / f"{case}.yaml"
    text = as_golden(objects(first))
    if update_golden:
        file.write_text(text)
    before = file.read_text()
    difference = "\n".join(
        difflib.unified_diff(before.splitlines(), text.splitlines(), "golden", "rendered", lineterm="")
    )
    assert not difference, f"{difference}\nwhere that is meant: --update-golden"


@every_set
def test_as_a_part_of_the_umbrella_it_is_the_same(one_helm: Helm, case: Case) -> None:
    own = {key: held for key, held in case.values.items() if key != "global"}
    others = {each.chart: {"enabled": False} for each in CASES}
    whole = {"global": case.values.get("global", {}), **others, case.chart: {**own, "enabled": True}}
    inside = objects(one_helm.template(UMBRELLA, whole))
    assert as_golden(inside) == as_golden(rendered(one_helm, case))


@pytest.mark.parametrize("chart", [UMBRELLA, VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_an_archive_has_the_library_in_it_and_renders_what_the_folder_does(
    helm: Helm, tmp_path: Path, chart: Path
) -> None:
    """No repository is asked: the library is a folder of the chart. Helm works in that folder, so it is a copy."""
    whole = shutil.copytree(UMBRELLA, tmp_path / UMBRELLA.name, symlinks=True)
    copy = whole / chart.relative_to(UMBRELLA)
    helm.run("dependency", "build", str(copy))
    helm.run("package", str(copy), "--destination", str(tmp_path))
    (archive,) = tmp_path.glob("*.tgz")
    found = helm.run("template", "one", str(archive), "--kube-version", "1.34", values=NEEDED[chart])
    folder = helm.run("template", "one", str(chart), "--kube-version", "1.34", values=NEEDED[chart])
    assert objects(found)
    assert as_golden(objects(found)) == as_golden(objects(folder))
    with tarfile.open(archive) as opened:
        names = {each.name for each in opened}
        assert not [each for each in opened if each.issym() or each.islnk()]
    assert any(name.endswith("charts/hami-plugins-library/templates/_names.tpl") for name in names)


def test_a_vendor_of_another_package_is_served_as_the_built_in_ones(helm: Helm) -> None:
    own = helm.template(ALLOCATOR, {"vendors": ["NVIDIA"]})
    entry = {**chart_vendor.entry(nvidia.SPEC), "name": "Acme"}
    more = helm.template(ALLOCATOR, {"vendors": ["Acme"], "moreVendors": [entry]})
    assert "Acme" in more
    doubled = ",".join(f'"{key}"' for key in entry["keys"]) + ","
    as_own = more.replace("Acme", "NVIDIA").replace(f'"hami.io/vgpu-node",{doubled}', '"hami.io/vgpu-node",')
    assert without_sums(as_own) == without_sums(own)


def test_the_guide_to_a_new_vendor_ends_with_a_chart_that_serves_it(one_helm: Helm, tmp_path: Path) -> None:
    """The last block of docs/tasks/add-a-vendor.md."""
    guide = Guide(tmp_path)
    guide.follow()
    (line,) = (each for each in guide.left if each.startswith("helm "))
    words = line.split()
    values = yaml.safe_load((tmp_path / words[words.index("--values") + 1]).read_text())
    given = [word for at, word in enumerate(words) if words[at - 1] == "--set"]
    found = objects(
        one_helm.run(
            "template", "hami", words[4], "--kube-version=1.34", *(f"--set={each}" for each in given), values=values
        )
    )
    (server,) = (each for each in of_kind(found, "Deployment") if each["metadata"]["name"] == "hami-allocator")
    image = server["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.startswith("registry.example/hami-acme/allocator:")
    (hooks,) = of_kind(found, "MutatingWebhookConfiguration")
    assert "acme.example/card" in yaml.safe_dump(hooks)
    (policy,) = (each for each in of_kind(found, "ValidatingAdmissionPolicy") if each not in node_policies(found))
    conditions = [each["expression"] for each in policy["spec"]["matchConditions"] if "vgpu-node" in each["expression"]]
    variables = [each["expression"] for each in policy["spec"]["variables"] if '"hami.io/vgpu' in each["expression"]]
    assert conditions
    assert variables
    assert all('"hami.io/acme-devices-allocated"' in each for each in (*conditions, *variables))


def test_a_product_that_is_not_wanted_leaves_nothing(one_helm: Helm) -> None:
    nothing = {"volcano-vgpu": {"enabled": False}, "allocator": {"enabled": False}}
    assert not objects(one_helm.template(UMBRELLA, nothing))


def test_it_can_be_a_dependency_of_somebody_elses_chart(one_helm: Helm, tmp_path: Path) -> None:
    """By alias, with shared values that this chart does not know."""
    chart = tmp_path / "platform"
    chart.mkdir()
    needed = {"name": "volcano-vgpu", "version": "0.1.0", "alias": "cards", "repository": f"file://{VOLCANO_VGPU}"}
    described = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [needed]}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described))
    shared = {
        "global": {"domain": "example.com", "imageRegistry": "mirror.example"},
        "cards": {"nameOverride": "cards", "agent": {"nodeSelector": {"gpu": "on"}}},
    }
    (chart / "values.yaml").write_text(yaml.safe_dump(shared))
    one_helm.run("dependency", "build", str(chart))
    found = objects(one_helm.template(chart))
    (agents,) = of_kind(found, "DaemonSet")
    assert agents["metadata"]["name"] == "one-cards-agent"
    assert agents["spec"]["template"]["spec"]["containers"][0]["image"].startswith("mirror.example/")


@pytest.mark.parametrize("chart", [UMBRELLA, VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
@pytest.mark.parametrize(
    ("way", "off"),
    [
        ({"condition": "cards.enabled"}, {"cards": {"enabled": False}}),
        ({"tags": ["accelerators"]}, {"tags": {"accelerators": False}, "cards": {"enabled": None}}),
    ],
    ids=["condition", "tags"],
)
def test_a_chart_that_depends_on_it_turns_it_on_and_off(
    one_helm: Helm, tmp_path: Path, chart: Path, way: Object, off: Values
) -> None:
    parent = tmp_path / "platform"
    parent.mkdir()
    needed = {"name": chart.name, "version": "0.1.0", "alias": "cards", "repository": f"file://{chart}", **way}
    described = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [needed]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(described))
    wanted = {**NEEDED[chart], "enabled": True}
    (parent / "values.yaml").write_text(
        yaml.safe_dump({"global": wanted.pop("global"), "cards": wanted, "tags": {"accelerators": True}})
    )
    one_helm.run("dependency", "build", str(parent))
    assert objects(one_helm.template(parent))
    assert not objects(one_helm.template(parent, off))


@pytest.mark.parametrize(("values", "sentence"), REFUSED, ids=[sentence[:60] for _, sentence in REFUSED])
def test_what_is_wrong_is_refused_with_a_sentence(helm: Helm, values: Values, sentence: str) -> None:
    with pytest.raises(HelmError) as caught:
        helm.template(VOLCANO_VGPU, values)
    assert sentence in str(caught.value)


def test_what_a_chart_cannot_know_it_asks_for(helm: Helm) -> None:
    """Unpublished images come from no registry by default, and agents are not on nodes without cards."""

    def template(chart: Path, values: Values) -> str:
        return helm.run("template", "one", str(chart), "--kube-version", "1.34", values=values)

    with_cards = {"agent": {"nodeSelector": {"gpu": "on"}}}
    for chart, values in ((VOLCANO_VGPU, with_cards), (ALLOCATOR, {}), (KOORDINATOR, {})):
        with pytest.raises(HelmError, match="imageRegistry: name the registry that has hami-plugins/"):
            template(chart, values)
    with pytest.raises(HelmError, match=r"agent\.nodeSelector: say which nodes have cards"):
        template(VOLCANO_VGPU, {"global": {"imageRegistry": "registry.example"}})
    assert template(ALLOCATOR, {"image": {"registry": "docker.io"}})
    assert template(ALLOCATOR, {"image": {"digest": f"sha256:{'0' * 64}"}})


@pytest.mark.parametrize(("chart", "name"), [(VOLCANO_VGPU, "agent"), (ALLOCATOR, "settings"), (KOORDINATOR, "node")])
def test_a_part_without_anything_under_it_is_refused_by_name(helm: Helm, chart: Path, name: str) -> None:
    """As it is when all of its lines are commented out."""
    with pytest.raises(HelmError, match=f"{name}: it is empty; leave it out, or write {name}: "):
        helm.run("template", "one", str(chart), "--kube-version", "1.34", values={name: None})


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_a_list_without_anything_under_it_is_an_empty_one(helm: Helm, chart: Path) -> None:
    def template(empty: list[str] | None) -> list[Object]:
        server = {"webhooks": {"exempt": empty}, "certificate": {"source": "certManager", "names": empty}}
        own = {} if chart == VOLCANO_VGPU else server
        return objects(helm.template(chart, {"imagePullSecrets": empty, **own}))

    assert template(None) == template([])


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_what_charts_share_is_taken_as_other_charts_have_it(helm: Helm, chart: Path) -> None:
    """Names of Secrets alone, and a registry with a slash behind it; one with a scheme is none."""
    shared = {"imageRegistry": "registry.example:5000/mirror/", "imagePullSecrets": ["theirs", {"name": "mine"}]}
    found = objects(helm.template(chart, {"global": shared, "imagePullSecrets": [{"name": "mine"}]}))
    for _, spec in pod_specs(found):
        assert spec["imagePullSecrets"] == [{"name": "theirs"}, {"name": "mine"}]
        for container in spec["containers"]:
            assert container["image"].startswith("registry.example:5000/mirror/hami-plugins/")
    with pytest.raises(HelmError, match=r"global\.imageRegistry: https://registry\.example: nodes want a host alone"):
        helm.template(chart, {"global": {"imageRegistry": "https://registry.example"}})


def pod_labels(found: Sequence[Object]) -> Iterator[tuple[str, Object, bool]]:
    """The pods that objects are or make: name, labels, and whether they are on the network of their host."""
    for each in found:
        made = each if each["kind"] == "Pod" else each.get("spec", {}).get("template", {})
        if "containers" in made.get("spec", {}):
            yield each["metadata"]["name"], made["metadata"]["labels"], made["spec"].get("hostNetwork", False)


def selects(selector: Object, labels: Object) -> bool:
    chosen = all(labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", []))
    return chosen and selector["matchLabels"].items() <= labels.items()


@every_set
def test_a_network_policy_stands_before_every_pod(one_helm: Helm, case: Case) -> None:
    """Each names its peers except for the webhooks' port, where API servers are not pods."""
    found = rendered(one_helm, case)
    policies = [each["spec"] for each in of_kind(found, "NetworkPolicy")]
    for name, labels, _ in pod_labels(found):
        (policy,) = (each for each in policies if selects(each["podSelector"], labels))
        assert policy["policyTypes"] == ["Ingress"], name
        for rule in policy.get("ingress", []):
            assert rule.get("from") or rule["ports"] == [{"port": "webhooks"}], name


@pytest.mark.parametrize("scraped", [False, True])
@pytest.mark.parametrize("chart", [VOLCANO_VGPU, KOORDINATOR], ids=lambda chart: chart.name)
def test_a_part_on_nodes_on_the_network_of_its_host_listens_on_loopback_unless_it_is_scraped(
    one_helm: Helm, chart: Path, *, scraped: bool
) -> None:
    """No NetworkPolicy covers it there."""
    part = {"hostNetwork": True, "enabled": True}
    values = {"agent" if chart == VOLCANO_VGPU else "node": part, "monitoring": {"podMonitor": {"enabled": scraped}}}
    found = objects(one_helm.template(chart, values))
    (agents,) = of_kind(found, "DaemonSet")
    labels = agents["spec"]["template"]["metadata"]["labels"]
    assert not [each for each in of_kind(found, "NetworkPolicy") if selects(each["spec"]["podSelector"], labels)]
    (told,) = (each for each in of_kind(found, "ConfigMap") if each["metadata"]["name"].endswith(("-agent", "-node")))
    (text,) = told["data"].values()
    assert yaml.safe_load(text)["listen"]["host"] == ("0.0.0.0" if scraped else "127.0.0.1")  # noqa: S104 - a value
    (container,) = agents["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"].get("host") == (None if scraped else "127.0.0.1")


def test_the_schedulers_that_are_listed_may_call_the_extender_and_so_may_the_releases_own(one_helm: Helm) -> None:
    theirs = {"podSelector": {"matchLabels": {"app": "volcano-scheduler"}}, "namespaceSelector": {}}
    values = {"networkPolicy": {"schedulers": [theirs]}, **ALLOCATOR_SETS["hami"]}
    found = objects(one_helm.template(ALLOCATOR, values))
    rules = [rule for each in of_kind(found, "NetworkPolicy") for rule in each["spec"].get("ingress", [])]
    (plain,) = (rule for rule in rules if rule["ports"] == [{"port": "plain"}])
    assert theirs in plain["from"]
    (labels,) = (labels for name, labels, _ in pod_labels(found) if name == "one-allocator-scheduler")
    assert any(selects(each["podSelector"], labels) for each in plain["from"] if "namespaceSelector" not in each)


@pytest.mark.parametrize("nobody", [None, []])
@pytest.mark.parametrize("chart", [ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_a_network_policy_that_names_nobody_lets_in_what_proves_the_installation(
    one_helm: Helm, chart: Path, nobody: list[str] | None
) -> None:
    let_in = {"scrapers": nobody, **({} if chart == KOORDINATOR else {"schedulers": nobody})}
    found = objects(one_helm.template(chart, {"networkPolicy": let_in}))
    (policy,) = (each for each in of_kind(found, "NetworkPolicy") if len(each["spec"].get("ingress", [])) == 2)
    (proves,) = of_kind(found, "Pod")
    webhooks, plain = policy["spec"]["ingress"]
    assert webhooks == {"ports": [{"port": "webhooks"}]}
    (only,) = plain["from"]
    assert only["podSelector"]["matchLabels"].items() <= proves["metadata"]["labels"].items()


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_names_that_look_like_numbers_stay_names(helm: Helm, chart: Path) -> None:
    named = {"nameOverride": "2024", "fullnameOverride": "a2024"}
    for each in objects(helm.template(chart, named, name="123", namespace="456")):
        metadata = each["metadata"]
        assert metadata.get("namespace", "456") in {"456", "volcano-system"}
        assert (metadata["labels"]["app.kubernetes.io/name"], metadata["labels"]["app.kubernetes.io/instance"]) == (
            "2024",
            "123",
        )
        assert all(subject["namespace"] == "456" for subject in each.get("subjects", []))
    with pytest.raises(HelmError, match="fullnameOverride: objects would be called 123-"):
        helm.template(chart, name="123")


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_names_that_are_too_long_still_tell_releases_and_products_apart(one_helm: Helm, chart: Path) -> None:
    def names(release: str, which: Path) -> set[tuple[str, str, str]]:
        return {path(each) for each in objects(one_helm.template(which, name=release))}

    long = "a" * 52
    mine = names(f"{long}b", chart)
    assert not mine & names(f"{long}c", chart)
    for other in {VOLCANO_VGPU, ALLOCATOR, KOORDINATOR} - {chart}:
        assert not mine & names(f"{long}b", other)
    assert max(len(name) for _, namespace, name in mine if namespace) <= 63


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("projecthami/hami:1", "registry.example/projecthami/hami:1"),
        ("docker.io/projecthami/hami:1", "docker.io/projecthami/hami:1"),
        ("localhost:5000/hami", "localhost:5000/hami"),
        ("hami:1", "registry.example/hami:1"),
    ],
)
@pytest.mark.parametrize("chart", [VOLCANO_VGPU, KOORDINATOR], ids=lambda chart: chart.name)
def test_the_library_comes_from_the_registry_of_all_images(
    one_helm: Helm, chart: Path, image: str, expected: str
) -> None:
    part = {"library": {"image": image}}
    values = {"agent": part} if chart == VOLCANO_VGPU else {"node": {**part, "enabled": True}}
    (agents,) = of_kind(objects(one_helm.template(chart, values)), "DaemonSet")
    (copies,) = agents["spec"]["template"]["spec"]["initContainers"]
    assert copies["image"] == expected
    assert copies["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("chart", [ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_the_secret_of_cert_manager_is_not_in_the_way_of_our_own(one_helm: Helm, chart: Path) -> None:
    """It stays when its Certificate goes, and Helm makes no object that is there already."""

    def served(**certificate: str) -> list[Object]:
        return objects(one_helm.template(chart, {"certificate": certificate}))

    theirs = {each["spec"]["secretName"] for each in of_kind(served(source="certManager"), "Certificate")}
    (ours,) = of_kind(served(source="bootstrap"), "Secret")
    assert ours["metadata"]["name"] not in theirs
    with pytest.raises(HelmError, match=r"certificate\.secretName: with .*certificate\.source bootstrap the server"):
        served(source="bootstrap", secretName="mine")


@pytest.mark.parametrize("chart", [ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_cert_manager_renews_certificates_under_an_authority_that_stays(one_helm: Helm, chart: Path) -> None:
    """A certificate that is its own authority is trusted anew before the server has it."""
    theirs = {"source": "certManager", "issuer": {"name": "ours"}}
    assert not of_kind(objects(one_helm.template(chart, {"certificate": theirs})), "Issuer")
    found = objects(one_helm.template(chart, {"certificate": {"source": "certManager"}}))
    issuers = {each["metadata"]["name"]: each["spec"] for each in of_kind(found, "Issuer")}
    (authority,) = (each for each in of_kind(found, "Certificate") if each["spec"].get("isCA"))
    (served,) = (each for each in of_kind(found, "Certificate") if each is not authority)
    assert issuers[served["spec"]["issuerRef"]["name"]] == {"ca": {"secretName": authority["spec"]["secretName"]}}
    assert issuers[authority["spec"]["issuerRef"]["name"]] == {"selfSigned": {}}
    assert authority["spec"]["privateKey"]["rotationPolicy"] == "Never"
    assert 0 < len(authority["spec"]["commonName"]) <= 64
    injected = f"here/{served['metadata']['name']}"
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    hooks = [each for kind in kinds for each in of_kind(found, kind)]
    assert {each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] for each in hooks} == {injected}


@pytest.mark.parametrize("chart", [ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_cert_manager_is_asked_for_addresses_as_addresses_and_for_names_as_names(one_helm: Helm, chart: Path) -> None:
    """No client accepts an address among the names."""
    certificate = {"source": "certManager", "names": ["10.0.0.7", "allocator.example", "fd00::7", "7.example"]}
    found, _authority = of_kind(objects(one_helm.template(chart, {"certificate": certificate})), "Certificate")
    assert found["spec"]["ipAddresses"] == ["10.0.0.7", "fd00::7"]
    assert found["spec"]["dnsNames"][2:] == ["allocator.example", "7.example"]


@pytest.mark.parametrize(
    ("values", "sentence"), REFUSED_BY_THE_ALLOCATOR, ids=[sentence[:60] for _, sentence in REFUSED_BY_THE_ALLOCATOR]
)
def test_what_is_wrong_is_refused_by_the_allocators_chart_too(one_helm: Helm, values: Values, sentence: str) -> None:
    with pytest.raises(HelmError) as caught:
        one_helm.template(ALLOCATOR, values)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("spelled", ["agent", "server"])
def test_the_umbrella_takes_a_usual_name_that_only_one_side_spells_out(one_helm: Helm, spelled: str) -> None:
    names = {"deviceConfig": {"nvidia": {"resourceMemoryName": "volcano.sh/vgpu-memory"}}}
    server: Values = {"allocator": {"settings": {"volcano": names}}}
    sides: dict[str, Values] = {"agent": {"volcano-vgpu": names}, "server": server}
    assert objects(one_helm.template(UMBRELLA, sides[spelled]))


@pytest.mark.parametrize(
    ("values", "sentence"), REFUSED_BY_THE_UMBRELLA, ids=[sentence[:60] for _, sentence in REFUSED_BY_THE_UMBRELLA]
)
def test_what_is_wrong_is_refused_by_the_umbrella_too(helm: Helm, values: Values, sentence: str) -> None:
    with pytest.raises(HelmError) as caught:
        helm.template(UMBRELLA, values)
    assert sentence in str(caught.value)


def test_agent_and_allocator_may_share_other_names(one_helm: Helm) -> None:
    names = {"nvidia": {"resourceMemoryName": "mine/memory"}}
    server = {"settings": {"volcano": {"deviceConfig": names}}}
    assert objects(one_helm.template(UMBRELLA, {"volcano-vgpu": {"deviceConfig": names}, "allocator": server}))


def test_a_folder_that_another_chart_shares_may_stay_where_ours_is_said(one_helm: Helm) -> None:
    shared = {"global": {"gpuHookPath": "/usr/local"}, "agent": {"settings": {"hookPath": "/usr/local/vgpu"}}}
    assert objects(one_helm.template(VOLCANO_VGPU, shared))


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_service_monitors_find_the_pods_that_pod_monitors_find(one_helm: Helm, chart: Path) -> None:
    part: Values = {"node": {"enabled": True}} if chart == KOORDINATOR else {}
    found = {
        way: objects(one_helm.template(chart, {**part, "monitoring": {way: {"enabled": True}}}))
        for way in ("podMonitor", "serviceMonitor")
    }
    (pods,), (services,) = (
        of_kind(found["podMonitor"], "PodMonitor"),
        of_kind(found["serviceMonitor"], "ServiceMonitor"),
    )
    ours = [each for each in of_kind(found["serviceMonitor"], "Service") if each["spec"].get("clusterIP") == "None"]
    assert all(
        services["spec"]["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items() for each in ours
    )
    assert all(each["spec"]["publishNotReadyAddresses"] for each in ours)
    ports = [each["port"] for each in pods["spec"]["podMetricsEndpoints"]]
    assert [each["port"] for each in services["spec"]["endpoints"]] == ports
    assert {port["targetPort"] for each in ours for port in each["spec"]["ports"]} == set(ports)
    for each in ours:
        (workload,) = (
            other
            for other in found["serviceMonitor"]
            if other["kind"] in {"Deployment", "DaemonSet"}
            and each["spec"]["selector"].items() <= other["spec"]["template"]["metadata"]["labels"].items()
        )
        named = {port["name"] for port in workload["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= named


def test_a_cluster_that_is_too_old_is_refused(helm: Helm) -> None:
    with pytest.raises(
        HelmError, match=r"requires kubeVersion: >=1\.30\.0-0 which is incompatible with Kubernetes v1\.28"
    ):
        helm.template(VOLCANO_VGPU, kubernetes="1.28.3")


@pytest.mark.parametrize(
    "version", ["1.30.0", "1.31.4-eks-1552ad0", "1.32.1-gke.1357001", "1.33.3+k3s1", "1.33.1+rke2r1"]
)
def test_clusters_of_all_makers_are_new_enough(one_helm: Helm, version: str) -> None:
    assert one_helm.template(VOLCANO_VGPU, kubernetes=version)


def told_to_the_server(found: Sequence[Object], name: str = "one-allocator") -> AllocatorSettings:
    """The settings of the allocator, as its process takes them."""
    (told,) = (each for each in of_kind(found, "ConfigMap") if each["metadata"]["name"] == name)
    return SETTINGS.load(told["data"]["allocator.yaml"], {})


@pytest.mark.parametrize("name", [name for name in ALLOCATOR_SETS if name != "policy"])
def test_the_webhooks_are_those_of_the_program(one_helm: Helm, name: str) -> None:
    """Of the settings that the server is given, whatever vendors and names of resources they have."""
    values = ALLOCATOR_SETS[name]
    found = objects(one_helm.template(ALLOCATOR, values))
    (configuration,) = of_kind(found, "MutatingWebhookConfiguration")
    settings = told_to_the_server(found, values.get("fullnameOverride", "one-allocator"))
    vendors = vendors_of(settings)
    told = values.get("webhooks", {})
    hooks = hooks_of(product_of(settings, vendors), extension_of(vendors) if told.get("jobs") else None)
    target = WebhookTarget(
        configuration=settings.webhooks.configuration,
        service=settings.service.name,
        namespace="here",
        ca=values.get("certificate", {}).get("caBundle", ""),
    )
    exempt = told.get("exempt", ["kube-system"])
    expected = webhooks.webhooks(hooks, target, exempt=exempt, marked_only=told.get("markedOnly", False))
    assert configuration["webhooks"] == expected["webhooks"]
    assert configuration["metadata"]["name"] == expected["metadata"]["name"]


@pytest.mark.parametrize(("binds", "evicts"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("name", ["neuron", "hami", "everything"])
def test_kube_scheduler_is_configured_as_the_program_prints_it(
    one_helm: Helm, name: str, *, binds: bool, evicts: bool
) -> None:
    """The part that asks the server; the profile is the values' own."""
    scheduler = {"enabled": True, "image": "a/b:1"}
    told = {"scheduler": {"binds": binds}, **({"preemption": {"mode": "scheduler"}} if evicts else {})}
    more = {"settings": told, "kubeScheduler": scheduler, "fullnameOverride": "cards"}
    found = objects(one_helm.template(ALLOCATOR, laid(more, ALLOCATOR_SETS[name])))
    (text,) = (
        each["data"]["kube-scheduler.yaml"]
        for each in of_kind(found, "ConfigMap")
        if "kube-scheduler.yaml" in each["data"]
    )
    settings = told_to_the_server(found, "cards")
    vendors = vendors_of(settings)
    configured = yaml.safe_load(text)
    expected = kube_scheduler_configuration.document(
        settings.plain_url(SCHEDULER_PATH),
        scheduler_resources(vendors),
        ignored=ignored_by_scheduler(vendors),
        binds=binds,
        evicts=evicts,
        timeout=timeout_of(vendors),
    )
    assert {key: configured[key] for key in expected} == expected
    (profile,) = configured["profiles"]
    assert profile["schedulerName"] == settings.scheduler.name
    lease = configured["leaderElection"]
    named = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in of_kind(found, "Lease")}
    assert (lease["resourceNamespace"], lease["resourceName"]) in named
    assert len(named) == 2


@pytest.mark.parametrize("name", ["neuron", "hami", "everything"])
def test_the_real_kube_scheduler_takes_every_field_of_its_configuration(
    one_helm: Helm, programs: Mapping[str, Path], tmp_path: Path, name: str
) -> None:
    """It decodes strictly, and writes what it has understood; it asks no cluster for that."""
    scheduler = {"enabled": True, "image": "a/b:1"}
    found = objects(one_helm.template(ALLOCATOR, laid({"kubeScheduler": scheduler}, ALLOCATOR_SETS[name])))
    (text,) = (
        each["data"]["kube-scheduler.yaml"]
        for each in of_kind(found, "ConfigMap")
        if "kube-scheduler.yaml" in each["data"]
    )
    cluster = {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}
    context = {"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **cluster, **context}))
    told, understood = tmp_path / "told.yaml", tmp_path / "understood.yaml"
    told.write_text(f"{text}\nclientConnection: {{kubeconfig: {tmp_path / 'kubeconfig'}}}\n")
    command = [
        str(programs["kube-scheduler"]),
        f"--config={told}",
        f"--write-config-to={understood}",
        "--secure-port=0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    written = yaml.safe_load(understood.read_text())
    assert written["extenders"][0]["urlPrefix"] == yaml.safe_load(text)["extenders"][0]["urlPrefix"]
    assert [each["schedulerName"] for each in written["profiles"]] == [
        ALLOCATOR_SETS[name].get("schedulerName", "hami-scheduler")
    ]


def test_kube_scheduler_runs_as_an_account_of_its_own_with_the_rights_of_the_clusters_own(one_helm: Helm) -> None:
    found = objects(one_helm.template(ALLOCATOR, ALLOCATOR_SETS["hami"]))
    spec = dict(pod_specs(found))["one-allocator-scheduler"]
    assert spec["containers"][0]["image"] == "registry.k8s.io/kube-scheduler:v1.34.4"
    assert spec["serviceAccountName"] == "one-allocator-scheduler"
    bound = {
        each["roleRef"]["name"]
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for each in of_kind(found, kind)
        if each["subjects"][0]["name"] == "one-allocator-scheduler"
    }
    assert bound == {
        "system:kube-scheduler",
        "system:volume-scheduler",
        "extension-apiserver-authentication-reader",
        "one-allocator-scheduler",
    }
    (budget,) = (
        each for each in of_kind(found, "PodDisruptionBudget") if each["metadata"]["name"].endswith("scheduler")
    )
    assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", KOORDINATOR_SETS)
def test_the_webhooks_of_the_adapter_are_those_of_the_program(one_helm: Helm, name: str) -> None:
    values = KOORDINATOR_SETS[name]
    rendered_ones = objects(one_helm.template(KOORDINATOR, values))
    service = "one-koordinator-adapter"
    target = WebhookTarget(configuration=f"here.{service}", service=service, namespace="here")
    told = {**values.get("settings", {}), "service": {"namespace": "here"}}
    policy = policy_of(AdapterSettings.model_validate(told))
    expected = (
        koordinator.mutating(target, injects=policy.injects != "never"),
        koordinator.validating(target),
    )
    for each in expected:
        (found,) = of_kind(rendered_ones, each["kind"])
        assert found["webhooks"] == each["webhooks"]
        assert found["metadata"]["name"] == each["metadata"]["name"]


def test_alerts_are_about_this_release(one_helm: Helm) -> None:
    (found,) = of_kind(
        objects(one_helm.template(VOLCANO_VGPU, {"monitoring": {"prometheusRule": {"enabled": True}}})),
        "PrometheusRule",
    )
    assert {group["name"] for group in found["spec"]["groups"]} == {"volcano-vgpu"}
    for rule in (rule for group in found["spec"]["groups"] for rule in group["rules"]):
        assert f'namespace="here", pod=~"{FULL_NAME}-agent-' in rule["expr"]
        assert "RELEASE" not in rule["expr"]


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ({}, {"koordinator-adapter", "koordinator-adapter-devices"}),
        (
            {"node": {"enabled": True}},
            {"koordinator-adapter", "koordinator-adapter-devices", "koordinator-adapter-node"},
        ),
        ({"settings": {"devices": {"enabled": False}}}, {"koordinator-adapter"}),
    ],
)
def test_alerts_of_the_adapter_are_about_what_is_installed_and_of_this_release(
    one_helm: Helm, values: Values, groups: set[str]
) -> None:
    told = {**values, "monitoring": {"prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example/a"}}}
    (found,) = of_kind(objects(one_helm.template(KOORDINATOR, told)), "PrometheusRule")
    assert {group["name"] for group in found["spec"]["groups"]} == groups
    for rule in (rule for group in found["spec"]["groups"] for rule in group["rules"]):
        assert 'namespace="here", pod=~"one-koordinator-adapter-' in rule["expr"]
        for pattern in re.findall(r'pod=~"([^"]+)"', rule["expr"]):
            assert not re.fullmatch(pattern, "one-koordinator-adapter-two-6d5f8b7c9d-x2x4z"), "of another release"
            cut_off = "one-koordinator-adapter-6d5f8b7x2x4z"  # by the API server, where the name is long
            ours = ("one-koordinator-adapter-6d5f8b7c9d-x2x4z", "one-koordinator-adapter-node-x2x4z", cut_off)
            assert any(re.fullmatch(pattern, each) for each in ours)
        assert "RELEASE" not in rule["expr"]
        assert rule["annotations"]["runbook_url"] == f"https://runbooks.example/a#{rule['alert'].lower()}"


@pytest.mark.parametrize(
    ("vendors", "groups"),
    [
        (["Volcano-vGPU"], {"allocator"}),
        (["AWSNeuron"], {"allocator", "neuron-devices"}),
        (["NVIDIA"], {"allocator", "allocator-locks"}),
    ],
)
def test_alerts_of_the_allocator_are_about_its_vendors_and_this_release(
    one_helm: Helm, vendors: list[str], groups: set[str]
) -> None:
    rules = {"enabled": True, "runbooks": "https://runbooks.example/n"}
    told = {"vendors": vendors, "monitoring": {"prometheusRule": rules}}
    (found,) = of_kind(objects(one_helm.template(ALLOCATOR, told)), "PrometheusRule")
    *alerts, charges = found["spec"]["groups"]
    assert {group["name"] for group in alerts} == groups
    assert charges["name"] == "allocator-charges"
    scraped = [rule["expr"] for rule in charges["rules"] if "hami_allocator_" in rule["expr"]]
    assert all('namespace="here", pod=~"one-allocator-' in each for each in scraped)
    assert len(scraped) == 2
    for rule in (rule for group in alerts for rule in group["rules"]):
        assert 'namespace="here", pod=~"one-allocator-' in rule["expr"]
        for pattern in re.findall(r'pod=~"([^"]+)"', rule["expr"]):
            assert re.fullmatch(pattern, "one-allocator-6d5f8b7c9d-x2x4z")
            assert not re.fullmatch(pattern, "one-allocator-scheduler-6d5f8b7c9d-x2x4z")
        assert "RELEASE" not in rule["expr"]
        assert rule["annotations"]["runbook_url"] == f"https://runbooks.example/n#{rule['alert'].lower()}"


def test_whoever_proves_and_removes_knows_the_resources_of_the_device_configuration(one_helm: Helm) -> None:
    values = {"deviceConfig": {"nvidia": {"resourceCountName": "a.b/count"}}}
    specs = dict(pod_specs(objects(one_helm.template(VOLCANO_VGPU, values))))
    told = {"verify": "agent", "uninstall": "uninstall"}
    for name, settings in ((f"{FULL_NAME}-{process}", f"{FULL_NAME}-{held}") for process, held in told.items()):
        (container,) = specs[name]["containers"]
        assert "--device-config=/etc/hami-plugins/device-config.yaml" in container["args"]
        assert container["volumeMounts"] == [{"name": "settings", "mountPath": "/etc/hami-plugins", "readOnly": True}]
        assert specs[name]["volumes"] == [{"name": "settings", "configMap": {"name": settings}}]


def upgraded(helm: Helm, values: Values) -> list[Object]:
    """What an upgrade of the agent's chart makes."""
    flags = [str(VOLCANO_VGPU), "--kube-version", "1.34", "--namespace", "here", "--is-upgrade"]
    return objects(helm.run("template", "one", *flags, values=laid(values, NEEDED[VOLCANO_VGPU])))


@pytest.mark.parametrize("enabled", [True, False])
def test_where_the_agents_are_turned_off_their_nodes_are_cleaned_before_the_rights_go(
    one_helm: Helm, *, enabled: bool
) -> None:
    """Helm deletes accounts before DaemonSets, and an agent without rights cannot clean."""
    told = {"agent": {"enabled": enabled}, "deviceConfig": {"nvidia": {"resourceCountName": "a.b/count"}}}
    found = [each for each in upgraded(one_helm, told) if "uninstall" in each["metadata"]["name"]]
    times = {each["metadata"]["annotations"]["helm.sh/hook"] for each in found}
    assert times == {"pre-delete" if enabled else "pre-delete,pre-upgrade,pre-rollback"}
    assert {"ConfigMap", "ServiceAccount", "ClusterRole", "Role", "Job"} <= {each["kind"] for each in found}
    ((_, spec),) = pod_specs(found)
    assert spec["containers"][0]["args"][:2] == ["volcano-vgpu", "clean"]


def test_a_release_may_end_with_nothing_but_what_cleans(one_helm: Helm) -> None:
    """Which an upgrade leaves; an installation of nothing is a mistake."""
    kept = upgraded(one_helm, {"agent": {"enabled": False}})
    lasting = {each["kind"] for each in kept if not is_hook(each)}
    assert lasting == {"NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    with pytest.raises(HelmError, match="nothing would be installed"):
        one_helm.template(VOLCANO_VGPU, {"agent": {"enabled": False}})


@pytest.mark.parametrize("values", [{}, {"agent": {"enabled": False}}])
def test_the_job_at_the_end_may_write_no_more_of_nodes_than_the_agent(one_helm: Helm, values: Values) -> None:
    found = upgraded(one_helm, values)
    account = f"system:serviceaccount:here:{dict(pod_specs(found))[f'{FULL_NAME}-uninstall']['serviceAccountName']}"
    (policy,) = node_policies(found)
    assert f"'{account}'" in policy["spec"]["matchConditions"][0]["expression"]
    node_only, *others = policy["spec"]["validations"]
    assert account in node_only["expression"]
    assert not [each for each in others if account in each["expression"]]


def test_the_notes_of_the_umbrella_say_what_each_product_says(programs: Mapping[str, Path], tmp_path: Path) -> None:
    """Helm 3 prints them with a cluster alone."""
    helm = Helm(programs["helm4"], tmp_path / "helm")
    products = ("volcano-vgpu", "allocator", "koordinator-adapter")
    values = laid({name: {"enabled": True} for name in products}, NEEDED[UMBRELLA])
    said = helm.run("install", "one", str(UMBRELLA), "--dry-run=client", values=values).partition("NOTES:")[2]
    for command in (
        "helm test one",
        "allocator conf --config allocator.yaml",
        "HAMi-core's library",
        "koordinator doctor",
    ):
        assert command in said
    alone = helm.run("install", "one", str(ALLOCATOR), "--dry-run=client", values=NEEDED[ALLOCATOR])
    assert "configmap one-allocator --namespace default" in alone.partition("NOTES:")[2]


READS = {("nodes", "get"), ("nodes", "list"), ("nodes", "watch"), ("podgroups", "get"), ("podgroups", "list")}
MARKS = {("pods", "patch")}
"""The mark of pods that were created while it was away."""

WAITING = {*MARKS, ("events", "create"), ("events", "patch")}
"""What it does for pods of kube-scheduler that wait."""


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ({}, MARKS),
        ({"mode": "webhook"}, {("nodes", "patch"), *MARKS}),
        ({"vendors": ["AWSNeuron"]}, {("pods/binding", "create"), *WAITING}),
        ({"vendors": ["AWSNeuron"], "settings": {"scheduler": {"binds": False}}}, WAITING),
        (
            {"vendors": ["Volcano-vGPU", "NVIDIA"]},
            {("pods/binding", "create"), ("nodes", "patch"), *WAITING},
        ),
    ],
)
def test_the_server_has_the_rights_that_its_vendors_and_its_mode_need(
    one_helm: Helm, values: Values, more: set[tuple[str, str]]
) -> None:
    found = objects(one_helm.template(ALLOCATOR, values))
    rights = {
        (resource, verb)
        for role in of_kind(found, "ClusterRole")
        if not role["metadata"]["name"].endswith("-trust")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    writes = {each for each in rights if each[1] not in {"get", "list", "watch"}}
    assert rights >= READS
    assert writes == more
    assert told_to_the_server(found).scheduler.binds is (("pods/binding", "create") in more or "vendors" not in values)


def test_the_policy_of_the_adapters_server_lets_it_write_what_it_writes_of_nodes(one_helm: Helm) -> None:
    found = objects(one_helm.template(KOORDINATOR))
    (policy,), (server,) = node_policies(found), of_kind(found, "Deployment")
    (who,) = policy["spec"]["matchConditions"]
    account = server["spec"]["template"]["spec"]["serviceAccountName"]
    assert f"'system:serviceaccount:here:{account}'" in who["expression"]
    _, _, labels, _, *amounts = (each["expression"] for each in policy["spec"]["validations"])
    assert set(re.findall(r"'([^']+/[^']+)'", labels)) == set(sums.LABELS)
    assert len(amounts) == 2
    for expression in amounts:
        assert set(re.findall(r"'([^']+/[^']+)'", expression)) == set(sums.NAMES)


@pytest.mark.parametrize("mode", ["never", "auto"])
def test_the_part_on_nodes_knows_whether_the_server_sets_limits(one_helm: Helm, mode: str) -> None:
    """Where it does not, a koordlet has to, whose pod the part looks for."""
    values = {"settings": {"injection": {"mode": mode}} if mode != "never" else {}, "node": {"enabled": True}}
    found = objects(one_helm.template(KOORDINATOR, values))
    (told,) = (each for each in of_kind(found, "ConfigMap") if each["metadata"]["name"].endswith("-node"))
    assert yaml.safe_load(told["data"]["settings.yaml"])["injection"]["mode"] == mode
    (role,) = (each for each in of_kind(found, "ClusterRole") if each["metadata"]["name"].endswith("-node"))
    assert ("pods" in [resource for rule in role["rules"] for resource in rule["resources"]]) is (mode == "never")


@pytest.mark.parametrize("version", list(stale_allocations.POLICY_VERSIONS))
def test_the_policy_is_that_of_the_program(one_helm: Helm, version: str) -> None:
    found = objects(one_helm.template(ALLOCATOR, {"mode": "policy", "policyVersion": version}))
    policy, binding = stale_allocations.policy(version)
    (ours,), (bound,) = (of_kind(found, f"MutatingAdmissionPolicy{what}") for what in ("", "Binding"))
    assert (ours["apiVersion"], ours["spec"]) == (policy["apiVersion"], policy["spec"])
    assert bound["apiVersion"] == binding["apiVersion"]
    assert bound["spec"]["policyName"] == ours["metadata"]["name"]


@every_set
def test_nothing_may_do_everything(one_helm: Helm, case: Case) -> None:
    for role in (each for each in rendered(one_helm, case) if each["kind"] in {"Role", "ClusterRole"}):
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"*", "escalate", "bind", "impersonate"} & set(words), role["metadata"]["name"]
            assert rule["resources"] != ["secrets"] or not {"list", "watch"} & set(rule["verbs"])
            assert rule["resources"] != ["secrets"] or rule["verbs"] == ["create"] or rule["resourceNames"]


@every_set
def test_all_but_the_agent_are_restricted_pods(one_helm: Helm, case: Case) -> None:
    for pod, spec in pod_specs(rendered(one_helm, case)):
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            added = {"add": ["FOWNER"]} if container["name"] == "agent" else {}
            expected = {**RESTRICTED, "capabilities": {**added, "drop": ["ALL"]}}
            if container["name"] == "neuron-agent":  # AWS's tools open device files that no resource hands to it
                expected = {"privileged": True, "readOnlyRootFilesystem": True}
            assert expected.items() <= container["securityContext"].items(), pod
            assert container["resources"]["limits"]["memory"]
        if not pod.endswith(("-agent", "-node")):
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert not spec["hostNetwork"]
            assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume]


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_server_of_which_one_replica_is_ready_is_replaced_and_moved(one_helm: Helm, replicas: int) -> None:
    """A replica that is to stay until another is ready stays for ever, and so does one that a budget holds."""
    found = objects(one_helm.template(ALLOCATOR, {"replicas": replicas}))
    (deployment,) = of_kind(found, "Deployment")
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == "100%"
    assert not of_kind(found, "PodDisruptionBudget")
    tolerated = deployment["spec"]["template"]["spec"]["tolerations"]
    gone = {each["key"].partition("/")[2]: each["tolerationSeconds"] for each in tolerated}
    assert gone == {"not-ready": 15, "unreachable": 15}


def test_one_replica_is_usual_where_only_one_is_ready() -> None:
    """A tool that waits for all replicas (Helm 4, kubectl, Flux) would wait for ever for the others."""
    assert yaml.safe_load((ALLOCATOR / "values.yaml").read_text())["replicas"] == 1


@every_set
def test_objects_of_the_whole_cluster_are_named_after_release_and_namespace(one_helm: Helm, case: Case) -> None:
    """So that two releases do not meet, whatever they are called."""
    first = {path(each) for each in objects(one_helm.template(CHARTS / case.chart, case.values, namespace="a"))}
    second = {path(each) for each in objects(one_helm.template(CHARTS / case.chart, case.values, namespace="b"))}
    assert not first & second


def path(found: Object) -> tuple[str, str, str]:
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]


def test_a_change_of_the_settings_starts_the_pods_anew_and_nothing_else_does(one_helm: Helm) -> None:
    def template(values: Values) -> Any:
        (agents,) = of_kind(objects(one_helm.template(VOLCANO_VGPU, values)), "DaemonSet")
        return agents["spec"]["template"]

    usual = template({})
    assert template({"agent": {"settings": {"deviceSplitCount": 9}}}) != usual
    assert template({"deviceConfig": {"nvidia": {"resourceCountName": "a/b"}}}) != usual
    assert template({"rbac": {"volcano": False}}) == usual


@pytest.mark.parametrize(
    ("settings", "reads"),
    [
        ({}, True),
        ({"dialect": "hami"}, False),
        ({"dialect": "hami", "nodes": [{"name": "node-1", "settings": {"dialect": "volcano"}}]}, True),
    ],
    ids=["volcano", "hami", "both"],
)
def test_agents_read_volcanos_namespace_where_some_node_speaks_its_dialect(
    one_helm: Helm, settings: Values, reads: bool
) -> None:
    found = objects(one_helm.template(VOLCANO_VGPU, {"agent": {"settings": settings}}))
    assert any(each["metadata"]["namespace"] == "volcano-system" for each in of_kind(found, "Role")) is reads


def listed(chart: Path) -> set[str]:
    """The images that a chart says it needs."""
    named = yaml.safe_load(yaml.safe_load((chart / "Chart.yaml").read_text())["annotations"]["artifacthub.io/images"])
    return {each["image"] for each in named}


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_every_image_is_in_the_list_for_sites_without_a_registry(one_helm: Helm, chart: Path) -> None:
    """Including HAMi-core's, under its name as the page has it."""
    library = {"library": {"image": LIBRARY}}
    parts: dict[Path, Values] = {
        VOLCANO_VGPU: {"agent": library},
        ALLOCATOR: {},
        KOORDINATOR: {"node": {**library, "enabled": True}},
    }
    used = {
        container["image"].removeprefix("registry.example/")
        for _, spec in pod_specs(objects(one_helm.template(chart, parts[chart])))
        for container in [*spec["containers"], *spec.get("initContainers", [])]
    }
    assert used == listed(chart)
    assert LIBRARY not in used or f"image: {LIBRARY}" in (VOLCANO_VGPU / "README.md").read_text()


def test_the_list_of_the_umbrella_has_those_of_all_products() -> None:
    assert listed(UMBRELLA) == {image for chart in (VOLCANO_VGPU, ALLOCATOR, KOORDINATOR) for image in listed(chart)}


ACCOUNT = "system:serviceaccount"
OWN_ACCOUNTS = {
    "volcano-vgpu": (
        f"{ACCOUNT}:here:one-volcano-vgpu-agent",
        f"{ACCOUNT}:here:one-allocator",
        f"{ACCOUNT}:volcano-system:volcano-scheduler",
    ),
    "allocator": (f"{ACCOUNT}:here:one-allocator", f"{ACCOUNT}:here:one-volcano-vgpu-agent"),
    "koordinator-adapter": (),
}


@pytest.mark.parametrize("groups", [None, ["system:masters"]])
@pytest.mark.parametrize("users", [[], ["system:serviceaccount:a:b", 'o\'brien "x" \\ <y>']])
@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_the_policy_on_allocations_is_that_of_the_program(
    helm: Helm, chart: Path, users: list[str], groups: list[str] | None
) -> None:
    served = {"vendors": ["AWSNeuron", "NVIDIA"]} if chart == ALLOCATOR else {}
    values = {"allocationPolicy": {"users": users} | ({} if groups is None else {"groups": groups}), **served}
    found = objects(helm.template(chart, values))
    allocations = policies.allocations(chart.name)
    trusted = (*allocations.users, *OWN_ACCOUNTS[chart.name], *users)
    name = f"here.one-{chart.name}-allocations"
    remedy = policies.remedy(chart.name)
    expected = allocation_policy.policy(
        replace(allocations, users=trusted), remedy=remedy, groups=groups or account_policies.GROUPS, name=name
    )
    for wanted in expected:
        (each,) = (every for every in of_kind(found, wanted["kind"]) if every["metadata"]["name"] == name)
        assert (each["apiVersion"], each["spec"]) == (wanted["apiVersion"], wanted["spec"])


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_the_policy_on_allocations_can_be_turned_off(one_helm: Helm, chart: Path) -> None:
    found = objects(one_helm.template(chart, {"allocationPolicy": {"enabled": False}}))
    assert not [each for each in found if each["metadata"]["name"].endswith("-allocations")]


def test_the_policy_on_allocations_trusts_the_accounts_that_the_values_name(one_helm: Helm) -> None:
    scheduler = {"namespace": "batch", "deployment": "my-volcano"}
    values: Values = {
        "agent": {"settings": {"scheduler": scheduler}},
        "serviceAccounts": {"agent": {"create": False, "name": "mine"}},
    }
    for chart, more, account in (
        (VOLCANO_VGPU, values, "batch:my-volcano"),
        (VOLCANO_VGPU, values, "here:mine"),
        (ALLOCATOR, {"vendors": ["AWSNeuron"]}, "here:one-allocator"),
        (ALLOCATOR, ALLOCATOR_SETS["hami"], "here:one-allocator-scheduler"),
    ):
        policies_of = of_kind(objects(one_helm.template(chart, more)), "ValidatingAdmissionPolicy")
        (policy,) = (each for each in policies_of if each["metadata"]["name"].endswith("-allocations"))
        assert f'"{ACCOUNT}:{account}"' in policy["spec"]["matchConditions"][-1]["expression"]


@pytest.mark.parametrize(
    ("values", "mounted"),
    [
        ({}, False),
        ({"agent": {"settings": {"mode": "mps"}}}, True),
        ({"agent": {"settings": {"nodes": [{"name": "a", "settings": {"mode": "mps"}}]}}}, True),
        ({"nodeConfig": {"nodeconfig": [{"name": "a", "operatingmode": "mps"}]}}, True),
    ],
    ids=["hami-core", "all nodes", "some nodes", "the existing plugin's file"],
)
def test_the_agent_sees_the_daemon_of_mps_where_a_node_uses_it(one_helm: Helm, values: Values, mounted: bool) -> None:
    (agent,) = of_kind(objects(one_helm.template(VOLCANO_VGPU, values)), "DaemonSet")
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    assert any(each["mountPath"] == "/run/nvidia/mps" for each in container["volumeMounts"]) is mounted


def test_an_agent_that_makes_mig_instances_sees_what_makes_them(one_helm: Helm) -> None:
    settings = {"dialect": "hami", "mode": "mig", "flexibleMig": True}
    found = objects(one_helm.template(VOLCANO_VGPU, {"agent": {"privileged": True, "settings": settings}}))
    (agent,) = of_kind(found, "DaemonSet")
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    assert {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"} in container["env"]
