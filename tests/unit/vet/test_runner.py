"""``vet`` as a whole: order, severities, settings, vendors of one's own, and any manifest at all."""

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins import vet
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.mutate import WebhookSettings
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import BUILTIN, builtin, volcano
from hami_plugins.vet import VetFinding, VetSettings, VetSeverity
from tests.acme import SPEC as ACME
from tests.unit.vet import clusters

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: main}
spec:
  schedulerName: %s
  containers:
  - name: main
    resources: {limits: {%s}}
"""


def found(text: str, chosen: VetSettings | None = None, registry: Registry | None = None) -> tuple[VetFinding, ...]:
    return vet.vet(vet.read(text, source="f").documents, registry or builtin(), chosen)


def rules(text: str, chosen: VetSettings | None = None, registry: Registry | None = None) -> set[str]:
    return {each.rule for each in found(text, chosen, registry)}


def test_findings_go_by_file_and_line() -> None:
    text = POD % ("hami-scheduler", "nvidia.com/gpu: 1, nvidia.com/gpumem: 16Gi")
    sources = vet.joined([vet.read(text, source="b"), vet.read(f"\n{text}", source="a")])
    findings = vet.vet(reversed(sources.documents), builtin())
    assert [(each.file, each.line) for each in findings] == [("a", 9), ("b", 8)]


@pytest.mark.parametrize("word", ["HP211", "hp211", "memory-in-bytes"])
def test_a_rule_can_be_left_out_by_id_or_name(word: str) -> None:
    text = POD % ("hami-scheduler", "nvidia.com/gpu: 1, nvidia.com/gpumem: 16Gi")
    assert rules(text, VetSettings(ignore=frozenset({word}))) == {"HP208"}


def test_unreadable_documents_are_findings_unless_left_out() -> None:
    sources = vet.read("a: }", source="f")
    assert [each.rule for each in vet.vet((), builtin(), unreadable=sources.unreadable)] == ["HP001"]
    ignoring = VetSettings(ignore=frozenset({"HP001"}))
    assert vet.vet((), builtin(), ignoring, unreadable=sources.unreadable) == ()


def test_the_schedulers_of_the_cluster_are_settings() -> None:
    text = POD % ("my-hami", "nvidia.com/gpu: 1")
    assert rules(text) == {"HP504"}
    mine = VetSettings(rules=Rules(webhook=WebhookSettings(scheduler="my-hami")))
    assert rules(text, mine) == set()
    strict = VetSettings(rules=Rules(webhook=WebhookSettings(takes_over_default=False)))
    assert rules(POD % ("default-scheduler", "nvidia.com/gpu: 1"), strict) == {"HP504"}
    text = POD % ("vc", "volcano.sh/vgpu-number: 1")
    assert rules(text) == {"HP505"}
    assert rules(text, VetSettings(volcano=frozenset({"vc"}))) == set()


def test_the_namespace_of_objects_without_one_is_a_setting() -> None:
    (finding,) = found(POD % ("x", "nvidia.com/gpu: 1"), VetSettings(namespace="team-a"))
    assert finding.object == "Pod team-a/main"


def test_a_configured_percentage_is_read() -> None:
    text = POD % ("volcano", "volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory-percentage: 50")
    options = replace(volcano.SPEC.options, flags={volcano.PERCENTAGE: True})
    specs = tuple(replace(spec, options=options) if spec.name == volcano.SPEC.name else spec for spec in BUILTIN)
    assert rules(text) == {"HP701"}
    assert rules(text, registry=Registry(specs)) == {"HP707"}


def test_a_vendor_of_ones_own_is_known_with_its_units_and_near_names() -> None:
    registry = Registry((*BUILTIN, ACME))
    names = ACME.resources
    assert rules(POD % ("hami-scheduler", f"{names.count}: 1, {names.memory}: 16Gi"), registry=registry) & {"HP211"}
    assert rules(POD % ("hami-scheduler", f"{names.count}x: 1"), registry=registry) == {"HP101"}


@pytest.mark.parametrize(
    ("scheduler", "limits", "severity"),
    [
        ("mine", "nvidia.com/gpu: 1", VetSeverity.WARNING),
        ("volcano", "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000", VetSeverity.ERROR),
        ("hami-scheduler", "nvidia.com/gpumem: 4000", VetSeverity.NOTE),
        ("hami-scheduler", "hygon.com/dcumem: 4000", VetSeverity.ERROR),
    ],
)
def test_how_bad_a_finding_is_may_depend_on_what_comes_of_it(
    scheduler: str, limits: str, severity: VetSeverity
) -> None:
    (finding,) = found(POD % (scheduler, limits))
    assert finding.severity is severity


def test_an_object_that_is_refused_is_said_to_be_so_once_and_by_the_rule_that_says_most() -> None:
    assert rules(POD % ("hami-scheduler", "nvidia.com/gpu: -1")) == {"HP204"}
    assert rules(POD % ("hami-scheduler", "cpu: -1")) == {"HP003"}


def test_templates_are_found_in_kinds_that_nobody_knows() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: main
            resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 16Gi}}
"""
    (finding,) = found(text)
    assert (finding.rule, finding.line) == ("HP211", 11)
    assert "spec.pytorchReplicaSpecs.Worker.template, container main" in finding.message


NAMES = [
    *sorted({name for spec in BUILTIN for name in spec.resources.all()}),
    *("nvidia.com/gpu-mem", "enflame.com/vgcu", "nvidia.com/mig-1g.5gb", "cpu", "a/b/c", "", "x" * 300),
]
KEYS = [
    *sorted({key for spec in BUILTIN for key in spec.keys.all()}),
    *("hami.io/gpu-scheduler-policy", "nvidia.com/use-gpu-uuid", "scheduling.k8s.io/group-name", "a", "hami.io/"),
    "hami-plugins.io/vet-ignore",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["1", "16Gi", "-1", "0", "0.5", "1e9", "4GB", "true", "binpack", "GPU-1,GPU-2", "", ",", "\u00e9"]),
    st.text(max_size=5),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)),
    max_leaves=4,
)


def or_anything(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, ANYTHING)


AMOUNTS = st.dictionaries(st.sampled_from(NAMES), SCALARS, max_size=3)
CONTAINERS = st.fixed_dictionaries(
    {"name": or_anything(st.sampled_from(["a", "b"]))},
    optional={
        "resources": or_anything(
            st.fixed_dictionaries({}, optional={"limits": or_anything(AMOUNTS), "requests": or_anything(AMOUNTS)})
        ),
        "env": or_anything(st.lists(st.fixed_dictionaries({"name": SCALARS}, optional={"value": SCALARS}), max_size=2)),
        "securityContext": or_anything(st.fixed_dictionaries({"privileged": SCALARS})),
        "restartPolicy": SCALARS,
    },
)
METADATA = st.fixed_dictionaries(
    {"name": or_anything(st.sampled_from(["one", "two"]))},
    optional={
        "annotations": or_anything(st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=4)),
        "labels": or_anything(st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=2)),
        "namespace": SCALARS,
        "uid": SCALARS,
    },
)
SPECS = st.fixed_dictionaries(
    {"containers": or_anything(st.lists(or_anything(CONTAINERS), max_size=3))},
    optional={
        "initContainers": or_anything(st.lists(or_anything(CONTAINERS), max_size=1)),
        "schedulerName": or_anything(st.sampled_from(["volcano", "hami-scheduler", "x"])),
        "nodeName": SCALARS,
        "nodeSelector": or_anything(st.dictionaries(st.sampled_from(["node.kubernetes.io/instance-type"]), SCALARS)),
        "replicas": SCALARS,
        "minAvailable": SCALARS,
        "minMember": SCALARS,
        "queue": SCALARS,
        "hard": or_anything(st.dictionaries(st.sampled_from([f"limits.{name}" for name in NAMES]), SCALARS)),
    },
)
TEMPLATES = st.fixed_dictionaries({"metadata": or_anything(METADATA), "spec": or_anything(SPECS)})
KINDS = [
    ("v1", "Pod"),
    ("v1", "ResourceQuota"),
    ("v1", "Namespace"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "CronJob"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("scheduling.volcano.sh/v1beta1", "Queue"),
    ("example.com/v1", "Thing"),
]


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    version, kind = draw(st.sampled_from(KINDS))
    spec: Any = draw(or_anything(SPECS))
    if isinstance(spec, dict) and kind != "Pod":
        template = draw(or_anything(TEMPLATES))
        spec = {**spec, "template": template, "jobTemplate": {"spec": {"template": template}}}
        spec["tasks"] = draw(or_anything(st.lists(or_anything(st.fixed_dictionaries({"template": TEMPLATES})))))
    return {"apiVersion": version, "kind": kind, "metadata": draw(or_anything(METADATA)), "spec": spec}


@given(st.lists(manifests(), min_size=1, max_size=3), st.booleans())
def test_any_manifest_gives_findings_with_places_and_nothing_else(objects: list[dict[str, Any]], cluster: bool) -> None:
    registry = builtin()
    text = yaml.safe_dump_all(objects, allow_unicode=True)
    sources = vet.read(text, source="f")
    snapshot = snapshot_of(clusters.OBJECTS, registry) if cluster else None
    lines = text.count("\n") + 2
    for finding in vet.vet(sources.documents, registry, None, snapshot, unreadable=sources.unreadable):
        assert finding.rule in vet.BY_ID
        assert 1 <= finding.line <= lines
        assert finding.column >= 1
        assert finding.fix


def test_a_profile_that_a_node_offers_exists_and_one_that_is_well_formed_may() -> None:
    text = POD % ("default-scheduler", "nvidia.com/mig-1g.99gb: 1")
    assert [each.severity for each in found(text) if each.rule == "HP106"] == [VetSeverity.WARNING]
    snapshot = snapshot_of([clusters.node("n", {}, {"nvidia.com/mig-1g.99gb": "1"})], builtin())
    assert "HP106" not in {
        each.rule for each in vet.vet(vet.read(text, source="f").documents, builtin(), None, snapshot)
    }


def test_cards_of_a_single_mig_strategy_are_devices_of_the_cluster() -> None:
    text = POD % ("default-scheduler", "nvidia.com/gpu: 1")
    node = clusters.node("n", {}, {"nvidia.com/gpu": "7"})
    documents = vet.read(text, source="f").documents
    assert {"HP801"} == {each.rule for each in vet.vet(documents, builtin(), None, snapshot_of([node], builtin()))}
    node["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single"
    assert vet.vet(documents, builtin(), None, snapshot_of([node], builtin())) == ()
