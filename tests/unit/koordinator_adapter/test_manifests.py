"""Files of manifests in other words, and the command that translates them."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path
from textwrap import dedent, indent

import pytest
from typer.main import get_command

from hami_plugins.cli.kit import edge
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests
from hami_plugins.model.dialect import Dialect
from koordinator_adapter.cli import app
from koordinator_adapter.core.manifests import File, translated
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from tests.schema import ADAPTER
from tests.unit.koordinator_adapter.written import REGISTRY

CONTAINERS = """\
      containers:
      - name: c
        resources:
          limits:
            nvidia.com/gpu: 1        # cards
            nvidia.com/gpumem: 3000  # MiB
            nvidia.com/gpucores: 30
"""
DEPLOYMENT = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  template:
    spec:
{CONTAINERS}"""


def in_words(text: str, target: str, settings: TranslationOptions | None = None) -> File:
    """One file in other words."""
    documents = manifests.read(text, source="f.yaml")
    (found,) = translated(documents, Dialect(target), REGISTRY, settings or TranslationOptions(), namespace="default")
    return found


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("ReplicationController", "v1"),
        ("Deployment", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("DaemonSet", "apps/v1"),
        ("Job", "batch/v1"),
        ("PyTorchJob", "kubeflow.org/v1"),
    ],
)
def test_templates_of_every_kind_are_translated_in_place(kind: str, version: str) -> None:
    text = DEPLOYMENT.replace("Deployment", kind).replace("apps/v1", version)
    found = in_words(text, "koordinator")
    assert "koordinator.sh/gpu.shared: 1        # cards\n" in found.text
    assert "koordinator.sh/gpu-memory: 3000Mi  # MiB\n" in found.text
    assert not found.anew
    assert [each.fidelity for each in found.objects] == [Fidelity.LOSSLESS]


def test_a_file_without_cards_stays_as_it_is() -> None:
    text = "# mine\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n"
    found = in_words(text, "koordinator")
    assert (found.text, found.objects, found.changed) == (text, (), False)


def test_items_of_lists_are_translated_where_they_stand() -> None:
    spec = f"  spec:\n{dedent(CONTAINERS)}".replace("\n", "\n    ").rstrip()
    items = [f"- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}}}\n{spec}\n" for name in ("a", "b")]
    two = f"apiVersion: v1\nkind: List\nitems:\n{''.join(items)}"
    found = in_words(two, "koordinator")
    assert found.text.count("koordinator.sh/gpu-memory: 3000Mi  # MiB\n") == 2
    assert [each.name for each in found.objects] == ["default/a", "default/b"]


JOB = f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train, namespace: lab}}
spec:
  minAvailable: 2
  tasks:
  - name: w
    replicas: 2
    template:
      spec:
{CONTAINERS.replace(chr(10) + "  ", chr(10) + "    ").replace("      containers", "        containers", 1)}"""
VOLCANO_JOB = JOB.replace("nvidia.com/gpumem", "volcano.sh/vgpu-memory").replace(
    "nvidia.com/gpucores", "volcano.sh/vgpu-cores"
).replace("nvidia.com/gpu:", "volcano.sh/vgpu-number:")  # fmt: skip


def test_what_an_owner_says_to_volcano_is_said_to_koordinator_by_the_pods() -> None:
    keys = 'scheduling.volcano.sh/group-min-member: "2", scheduling.volcano.sh/queue-name: q, mine: x'
    text = DEPLOYMENT.replace("{name: web}", f"{{name: web, annotations: {{{keys}}}}}")
    for old, new in (("gpu:", "vgpu-number:"), ("gpumem", "vgpu-memory"), ("gpucores", "vgpu-cores")):
        text = text.replace(f"nvidia.com/{old}", f"volcano.sh/{new}")
    found = in_words(text, "koordinator", TranslationOptions(quotas=frozenset({"q"})))
    assert [each.fidelity for each in found.objects] == [Fidelity.LOSSLESS]
    assert [each.about for each in in_words(text, "koordinator").objects[0].findings] == ["ElasticQuota"]
    queue = "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
    assert [each.kind for each in in_words(text + queue, "koordinator").objects] == ["Deployment", "Queue"]
    raw = manifests.read(found.text, source="out")[0].raw
    assert raw["metadata"] == {"name": "web", "annotations": {"mine": "x"}}
    template = raw["spec"]["template"]["metadata"]  # type: ignore[index]
    assert template["annotations"] == {
        "gang.scheduling.koordinator.sh/name": "web",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    assert template["labels"]["quota.scheduling.koordinator.sh/name"] == "q"
    lost = in_words(text, "hami").objects[0]
    assert [each.about for each in lost.findings] == [
        "scheduling.volcano.sh/group-min-member",
        "scheduling.volcano.sh/queue-name",
    ]
    assert in_words(text, "volcano").text == text
    alone = text.replace('scheduling.volcano.sh/group-min-member: "2", ', "")
    assert "gang" not in in_words(alone, "koordinator").text


def test_a_pod_that_is_placed_stays_as_it_is() -> None:
    spec = indent(dedent(CONTAINERS), "  ")
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a, uid: u}}\nspec:\n  nodeName: n1\n{spec}"
    assert in_words(text, "koordinator").refused
    plain = text.replace("nvidia.com", "example.com")
    assert not in_words(plain, "koordinator").objects


def test_a_job_of_volcano_becomes_what_other_clusters_know() -> None:
    found = in_words(VOLCANO_JOB, "koordinator")
    kinds = [document.raw["kind"] for document in manifests.read(found.text, source="out")]
    assert kinds == ["PodGroup", "Job"]
    assert [(each.part, each.fidelity) for each in found.objects] == [
        ("", Fidelity.LOSSY),
        ("task w", Fidelity.LOSSLESS),
    ]
    assert in_words(VOLCANO_JOB, "volcano").text == VOLCANO_JOB


def test_a_job_that_needs_volcano_is_refused_and_stays() -> None:
    for more in ("  plugins: {svc: []}\n", "  volumes: 7\n", "  minAvailable: lots\n"):
        text = VOLCANO_JOB.replace("  minAvailable: 2\n", more)
        found = in_words(text, "koordinator")
        assert found.refused
        assert found.text == text


def test_a_pod_given_to_volcano_in_hamis_words_is_not_taken() -> None:
    assert in_words(JOB, "koordinator").refused


def test_groups_that_only_pods_describe_become_objects_for_volcano() -> None:
    gang = "gang.scheduling.koordinator.sh"
    annotations = f'    metadata:\n      annotations: {{{gang}/name: g, {gang}/min-available: "2"}}\n    spec:\n'
    text = DEPLOYMENT.replace("    spec:\n", annotations, 1)
    for old, new in (("gpu:", "gpu.shared:"), ("gpumem: 3000", "gpu-memory: 3000Mi"), ("gpucores", "gpu-core")):
        text = text.replace(f"nvidia.com/{old}", f"koordinator.sh/{new}")
    found = in_words(text, "volcano")
    group = manifests.read(found.text, source="out")[1].raw
    assert group["spec"] == {"minMember": 2}
    known = f"{found.text.split('---')[1]}---\n{text}"
    assert len(manifests.read(in_words(known, "volcano").text, source="out")) == 2
    assert not any(each.about.startswith(gang) for told in found.objects for each in told.findings if each.remedy)


GANG = "gang.scheduling.koordinator.sh"
MEMBER = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{{labels}}}, annotations: {{{annotations}}}}}
spec:
  schedulerName: {scheduler}
  containers: [{{name: c, resources: {{limits: {limits}}}}}]
"""


def test_a_gang_goes_as_a_whole_whoever_of_it_asks_for_cards() -> None:
    group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
    of_group = {"labels": "", "annotations": "scheduling.k8s.io/group-name: g", "scheduler": "volcano"}
    server = MEMBER.format(name="ps", limits="{cpu: 1}", **of_group)
    worker = MEMBER.format(name="w", limits="{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 9}", **of_group)
    for text in (f"{group}---\n{server}", f"{server}---\n{worker}"):
        found = in_words(text, "koordinator")
        for document in manifests.read(found.text, source="out"):
            if document.raw["kind"] == "Pod":
                assert document.raw["spec"]["schedulerName"] == "koord-scheduler"  # type: ignore[index]
                assert document.raw["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == "g"  # type: ignore[index]
    assert not in_words(server, "koordinator").changed


def test_the_queue_of_a_gang_that_only_pods_describe_is_that_of_its_group() -> None:
    described = {"annotations": f'{GANG}/name: g, {GANG}/min-available: "2"', "scheduler": "koord-scheduler"}
    labels = "quota.scheduling.koordinator.sh/name: q, koordinator.sh/gpu-isolation-provider: HAMi-core"
    limits = "{koordinator.sh/gpu.shared: 1, koordinator.sh/gpu-memory: 3Gi, koordinator.sh/gpu-core: 9}"
    found = in_words(MEMBER.format(name="w", labels=labels, limits=limits, **described), "volcano")
    assert manifests.read(found.text, source="out")[1].raw["spec"] == {"minMember": 2, "queue": "q"}


def test_namespaces_that_koordinators_webhook_leaves_out_are_known_from_the_manifests() -> None:
    text = (
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, labels: {{control-plane: x}}}}\n---\n{DEPLOYMENT}"
    )
    assert in_words(text, "koordinator").refused


def test_queues_and_groups_are_translated_beside_the_pods() -> None:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}  # mine\nspec: {weight: 1}\n"
    found = in_words(text, "koordinator")
    assert "kind: ElasticQuota" in found.text
    assert found.objects[0].fidelity is Fidelity.LOSSY
    assert in_words(text, "hami").text == text


def test_a_template_that_is_none_is_refused_and_nothing_else() -> None:
    for broken in ("    metadata: 7\n    spec:\n", "    metadata: {labels: {a: 1}}\n    spec:\n"):
        found = in_words(DEPLOYMENT.replace("    spec:\n", broken, 1), "koordinator")
        assert found.refused
    assert not in_words("kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: 7\n", "hami").changed


class Ran:
    """The command as a process would run it: exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        code = get_command(app)(["translate", *map(str, arguments)], standalone_mode=False)
        self.out, self.err = self._capsys.readouterr()
        return int(code or 0)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    return Ran(capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "web.yaml"
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


def test_manifests_come_out_on_stdout_and_nothing_is_written(ran: Ran, file: Path) -> None:
    assert ran("-f", file, "--to", "koordinator") == edge.Exit.FINE
    assert "koordinator.sh/gpu.shared: 1        # cards" in ran.out
    assert not ran.err
    assert file.read_text(encoding="utf-8") == DEPLOYMENT


def test_files_are_written_when_asked_for(ran: Ran, file: Path) -> None:
    assert ran("-f", file, "--to", "volcano", "--in-place") == edge.Exit.FINE
    assert "volcano.sh/vgpu-number: 1        # cards" in file.read_text(encoding="utf-8")
    assert ran.out == "1 translated to volcano: 1 lossless, 0 lossy, 0 refused\n"
    assert ran("-f", file, "--to", "volcano", "--in-place") == edge.Exit.FINE


def test_a_file_is_written_whole_or_not_at_all(ran: Ran, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ran("-f", file, "--to", "volcano", "--in-place")
    assert file.read_text(encoding="utf-8") == DEPLOYMENT
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_is_written_keeps_its_rights_and_a_link_to_it_is_still_one(ran: Ran, file: Path) -> None:
    file.chmod(0o640)
    link = file.with_name("link.yaml")
    link.symlink_to(file.name)
    assert ran("-f", link, "--to", "volcano", "--in-place") == edge.Exit.FINE
    assert link.is_symlink()
    assert "volcano.sh/vgpu-number" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o640


def test_losses_are_findings_unless_they_are_accepted(ran: Ran, file: Path) -> None:
    file.write_text(DEPLOYMENT.replace("gpucores: 30", "gpucores: 100"), encoding="utf-8")
    assert ran("-f", file, "--to", "koordinator") == edge.Exit.FINDINGS
    assert ran.err.startswith(f"note: {file}:9: lossy: Deployment default/web: koordinator.sh/gpu-core: ")
    assert ran("-f", file, "--to", "koordinator", "--accept-loss") == edge.Exit.FINE


def test_a_file_with_something_refused_is_not_written(ran: Ran, file: Path) -> None:
    text = f"{DEPLOYMENT}---\n{DEPLOYMENT.replace('gpucores: 30', 'gpucores: 130')}"
    file.write_text(text, encoding="utf-8")
    assert ran("-f", file, "--to", "koordinator", "--in-place", "--accept-loss") == edge.Exit.FINDINGS
    assert "not written" in ran.err
    assert file.read_text(encoding="utf-8") == text


def test_the_report_is_text_or_a_document(ran: Ran, file: Path) -> None:
    file.write_text(DEPLOYMENT.replace("gpucores: 30", "gpucores: 100"), encoding="utf-8")
    assert ran("-f", file, "--to", "koordinator", "--report", "text") == edge.Exit.FINDINGS
    assert ran.out.endswith("1 translated to koordinator: 0 lossless, 1 lossy, 0 refused\n")
    ran("-f", file, "--to", "koordinator", "--report", "json")
    found = json.loads(ran.out)
    ADAPTER.validate_python(found, strict=True)
    assert (found["kind"], found["summary"]) == ("Translation", {"lossless": 0, "lossy": 1, "refused": 0})
    assert found["items"][0]["findings"][0]["about"] == "koordinator.sh/gpu-core"
    file.write_text("kind: ConfigMap\napiVersion: v1\n", encoding="utf-8")
    assert ran("-f", file, "--to", "koordinator", "--report", "text") == edge.Exit.FINE
    assert ran.out == "none of them requests cards from HAMi, Volcano or Koordinator\n"


def test_several_files_are_one_stream(ran: Ran, file: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"kind": "ConfigMap", "apiVersion": "v1"}', encoding="utf-8")
    assert ran("-f", tmp_path, "--to", "hami") == edge.Exit.FINE
    assert [each.raw["kind"] for each in manifests.read(ran.out, source="out")] == ["Deployment", "ConfigMap"]


def test_what_groves_operator_makes_of_moved_pods_is_reported() -> None:
    template = "{spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}"
    cliques = f"apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {{name: x}}\nspec: {{one: {template}}}"
    found = [each for each in in_words(cliques, "koordinator").objects if not each.part and each.findings]
    assert [each.findings[0].about for each in found] == ["PodCliqueSet"]
    assert found[0].fidelity is Fidelity.LOSSY
    assert not in_words(cliques, "hami").changed


def test_what_is_written_anew_is_told(ran: Ran, file: Path) -> None:
    file.write_text(VOLCANO_JOB, encoding="utf-8")
    ran("-f", file, "--to", "koordinator", "--report", "text")
    assert "document 1 is rewritten, without its comments" in ran.out


def test_settings_come_from_options(ran: Ran, file: Path) -> None:
    annotations = "    metadata: {annotations: {hami.io/gpu-scheduler-policy: binpack, nvidia.com/use-gputype: t4}}\n"
    text = DEPLOYMENT.replace("    spec:\n", f"{annotations}    spec:\n", 1).replace(
        "            nvidia.com/gpucores: 30\n", ""
    )
    file.write_text(text, encoding="utf-8")
    options = (
        "--profile",
        "binpack=packing",
        "--model",
        "Tesla-T4",
        "--no-core-limit",
        "absent",
        "--runtime-class",
        "",
    )
    assert ran("-f", file, "--to", "koordinator", "--accept-loss", "--card-memory", 4096, *options) == edge.Exit.FINE
    assert "schedulerName: packing" in ran.out
    assert "gpu-core" not in ran.out
    assert "runtimeClassName" not in ran.out
    assert ran("-f", file, "--to", "volcano", "--scheduler", "volcano=vc", "--accept-loss") == edge.Exit.FINE
    assert "schedulerName: vc" in ran.out


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-f", "-", "--in-place"),
        ("-f", "x.yaml", "--profile", "binpack"),
        ("-f", "x.yaml", "--scheduler", "yarn=rm"),
    ],
)
def test_options_that_make_no_sense_say_so(ran: Ran, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(ManifestError):
        ran("--to", "koordinator", *options)


def test_a_quota_of_a_namespace_that_limits_nothing_any_more_is_told_and_stays() -> None:
    quota = "kind: ResourceQuota\napiVersion: v1\nmetadata: {name: q}\nspec: {hard: {%s}}\n"
    hard = "requests.nvidia.com/gpu: 4, limits.volcano.sh/vgpu-memory: 9, koordinator.sh/gpu-core: 5, requests.cpu: 1"
    found = in_words(quota % hard, "koordinator")
    assert [each.about for each in found.objects[0].findings] == [
        "requests.nvidia.com/gpu",
        "limits.volcano.sh/vgpu-memory",
    ]
    assert found.objects[0].fidelity is Fidelity.LOSSY
    assert not found.changed
    assert not in_words(quota % "requests.cpu: 1", "koordinator").objects
    assert not in_words(quota.replace("{hard: {%s}}", "7"), "koordinator").objects
