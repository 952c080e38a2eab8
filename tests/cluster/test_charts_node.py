"""The release on the real node: containers of our image serve pods, are upgraded under them, and leave nothing."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from charts.docker.image import Built
from charts.docker.targets import AGENT
from tests.cluster.agents import CDI, HOOK, Numbers
from tests.cluster.charted import FILES, Charted, busy, define_devices, import_images, resident
from tests.cluster.helm import CHARTS, UMBRELLA, VOLCANO_VGPU, Helm, HelmError, everything, is_hook, laid, objects
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.monitored import HAMI_ONLY, NEURON_ONLY, recorded
from tests.cluster.node import DEVICE_PLUGINS, Node
from tests.cluster.objects import container, pod
from tests.cluster.pages import Page, Terminal
from tests.cluster.processes import Component
from tests.cluster.slices import amiss, pods, settled, volcano_pod
from tests.cluster.volcano import CONFIGURATION, Volcano
from tests.cluster.waiting import wait_until

MIB = 2**20
SLOT = "volcano.sh/vgpu-number"
ISOLATION = "koordinator.sh/gpu-isolation-provider"
READY = "server of {} in its container: start to ready, as the kubelet sees it"


@pytest.fixture(scope="module")
def built(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Our image, which the node has then."""
    return import_images(node, tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def before(built: Built, volcano: Volcano, kube_scheduler: Component, control_plane: ControlPlane) -> frozenset[str]:
    """All objects of the cluster before anything is installed."""
    assert built.components
    return everything(control_plane.api)


@pytest.fixture(scope="module")
def release(
    node: Node,
    volcano: Volcano,
    before: frozenset[str],
    programs: Mapping[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Charted]:
    """The release, and Volcano told of its mode."""
    assert before
    helm = Helm(programs["helm3"], tmp_path_factory.mktemp("helm"), node.plane.admin_kubeconfig)
    place = f"charted-{secrets.token_hex(3)}"
    node.plane.create_namespace(place)
    found = Charted(node, helm, place)
    try:
        volcano.configure(found.scheduler_conf())
        volcano.restart_scheduler()
        yield found
    finally:
        volcano.configure(CONFIGURATION)
        volcano.restart_scheduler()
        if found.installed:
            found.uninstall()
        node.plane.clear_namespace(place)
        node.plane.api.delete(f"/api/v1/namespaces/{place}")


@pytest.fixture
def charted(release: Charted) -> Charted:
    """The release, installed and ready."""
    if not release.installed:
        release.install()
    return release


@pytest.fixture
def bare(release: Charted) -> Charted:
    """The release, not installed."""
    if release.installed:
        release.uninstall()
    return release


def affinity(label: str) -> Mapping[str, object]:
    """Which chooses nodes with that label."""
    term = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def served(charted: Charted, namespace: str, name: str) -> str:
    """A pod with a slice of its own, which runs; its UID."""
    charted.plane.api.create(pods(namespace), volcano_pod(name))
    (found,) = settled(charted.plane, namespace, [name])
    assert not amiss(charted.plane, found)
    return str(found["metadata"]["uid"])


def test_the_image_is_small(built: Built, numbers: Numbers) -> None:
    numbers.add("image, compressed", f"{built.compressed / MIB:.1f} MiB", "150 MiB")
    assert built.compressed <= 150 * MIB


def test_the_image_is_the_same_when_it_is_built_again_and_says_what_is_in_it(built: Built, tmp_path: Path) -> None:
    archive = tmp_path / "again.tar"
    command = [sys.executable, "-m", "charts.docker.image", AGENT.name, str(archive), "--name", "docker.io/again:1"]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    bill = json.loads(archive.with_suffix(".tar.cdx.json").read_text())
    assert bill["metadata"]["component"]["version"] == built.digest
    assert {"libc6", "grpcio", "hami-plugins"} <= {each["name"] for each in bill["components"]}
    assert all(each["purl"].startswith(("pkg:deb/", "pkg:pypi/")) for each in bill["components"])


def test_helm_test_proves_the_installation(charted: Charted) -> None:
    try:
        said = charted.helm.run("test", "one", "--namespace", charted.namespace, "--timeout", "120s")
    except HelmError as error:
        pytest.fail(f"{error}\n{charted.story()}")
    assert "Phase:          Succeeded" in said


def test_a_pod_that_volcano_schedules_is_served_and_keeps_its_slice_over_upgrade_and_rollback(
    charted: Charted, namespace: str
) -> None:
    uid = served(charted, namespace, "first")
    (agent,) = charted.pods("agent")
    for verb in ("upgrade", "rollback"):
        if verb == "upgrade":
            changed = charted.values(podAnnotations={"test/upgraded": "yes"})
            charted.helm.change("upgrade", "one", charted.namespace, values=changed, chart=UMBRELLA)
        else:
            charted.helm.run("rollback", "one", "1", "--namespace", charted.namespace)
        wait_until(
            partial(replaced, charted, agent["metadata"]["name"]), f"{verb}: another agent", 120, show=charted.story
        )
        charted.wait_ready()
        (agent,) = charted.pods("agent")
        found = charted.plane.api.get(f"{pods(namespace)}/first")
        (status,) = found["status"]["containerStatuses"]
        assert (found["metadata"]["uid"], status["restartCount"]) == (uid, 0)
        assert not amiss(charted.plane, found)
        served(charted, namespace, f"after-{verb}")


def replaced(charted: Charted, name: str) -> bool:
    """Whether another agent than that one is the only one."""
    names = [each["metadata"]["name"] for each in charted.pods("agent")]
    return len(names) == 1 and names != [name]


def test_a_gitops_client_sees_the_difference_between_two_renders_and_no_other(charted: Charted, tmp_path: Path) -> None:
    """Argo CD and Flux compare what charts render with what is there, over and over: what the server writes (its
    certificate, the authority in webhooks) and what the API server fills in must not look like somebody's change."""
    same, changed = charted.values(), charted.values(podAnnotations={"test/upgraded": "yes"})
    for way in ([], ["--server-side", "--force-conflicts", "--field-manager=argocd-controller"]):
        unchanged = difference(charted, tmp_path / "same", same, *way)
        assert not unchanged, unchanged
        found = difference(charted, tmp_path / "changed", changed, *way)
        (agent,) = (line for line in found.splitlines() if line.startswith("+++ "))
        assert "/apps.v1.DaemonSet." in agent


def difference(release: Charted, folder: Path, values: Mapping[str, object], *way: str) -> str:
    """What ``kubectl diff`` would change for those values. It asks the API server, and changes nothing."""
    flags = ["--namespace", release.namespace, "--kube-version", f"{release.plane.release}.0"]
    rendered = objects(release.helm.run("template", "one", str(UMBRELLA), *flags, values=values))
    folder.mkdir(exist_ok=True)
    manifest = folder / "rendered.yaml"
    manifest.write_text(yaml.safe_dump_all(each for each in rendered if not is_hook(each)))
    command = [str(release.plane.programs["kubectl"]), "diff", *way, "-f", str(manifest)]
    environment = {"KUBECONFIG": str(release.plane.admin_kubeconfig), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout


def test_what_is_scraped_is_what_dashboard_and_alerts_are_tried_on(
    charted: Charted, namespace: str, *, update_golden: bool
) -> None:
    """The recorded scrape has the names that a real one has."""
    served(charted, namespace, "scraped")
    recorded("agent", charted.agent_port, update=update_golden)
    recorded("allocator", charted.plain_port, update=update_golden, without=(*NEURON_ONLY, *HAMI_ONLY))


class Lack(NamedTuple):
    """A rule of the chart, the verbs that are taken from it, and what its account then misses."""

    component: str
    rule: str
    verbs: str
    missed: str


@pytest.mark.parametrize(
    "lack",
    [
        Lack("agent", "resources: [nodes/status], verbs: [patch]", "patch", "nodes/status"),
        Lack("agent", "resources: [pods], verbs: [get, list, watch, patch]", "list, watch, patch", "pods"),
        Lack("allocator", "resources: [pods], verbs: [get, list, watch", "list, watch", "pods"),
        Lack("allocator", "verbs: [get, update]}", "update", "leases"),
    ],
    ids=lambda lack: f"{lack.component}-{lack.missed}",
)
def test_a_right_that_the_chart_forgot_is_missed(bare: Charted, tmp_path: Path, lack: Lack) -> None:
    """The processes have what the chart gives them and nothing else: without a verb they say so."""
    chart = tmp_path / UMBRELLA.name
    shutil.copytree(UMBRELLA, chart)
    part = {"agent": "volcano-vgpu"}.get(lack.component, lack.component)
    file = chart / "charts" / part / "templates" / "rbac.yaml"
    before = file.read_text()
    assert before.count(lack.rule) == 1
    file.write_text(before.replace(lack.rule, lack.rule.replace(lack.verbs, "deletecollection")))
    bare.helm.change("install", "one", bare.namespace, values=bare.values(), chart=chart)
    missed = re.compile(rf'cannot \w+ resource \\*"{lack.missed}')
    try:
        wait_until(lambda: missed.search(bare.printed(lack.component)), f"{lack} is missed", 90, show=bare.story)
    finally:
        bare.uninstall()


def test_a_server_answers_soon_after_its_start(charted: Charted, numbers: Numbers) -> None:
    seconds = charted.seconds_to_ready("allocator")
    numbers.add(READY.format("allocator"), f"{seconds:.0f} s", "3 s")
    assert seconds >= 0


def test_an_idle_agent_is_small_and_quiet(charted: Charted, numbers: Numbers) -> None:
    pid = charted.process("agent")
    memory, share = resident(pid), busy(pid, 20)
    numbers.add("agent in its container, idle: memory", f"{memory / MIB:.0f} MiB", "100 MiB")
    numbers.add("agent in its container, idle: share of a core", f"{100 * share:.2f} %", "0.5 %")
    assert memory <= 100 * MIB


def test_uninstalling_leaves_nothing_in_the_cluster_and_on_the_node(
    charted: Charted, before: frozenset[str], namespace: str
) -> None:
    served(charted, namespace, "last")
    charted.plane.clear_namespace(namespace)
    try:
        charted.uninstall()
    except HelmError as error:
        pytest.fail(f"{error}\n{charted.story()}")

    wait_until(
        lambda: not left_over(charted, before),
        "no object is left",
        60,
        show=lambda: "\n".join(sorted(left_over(charted, before))),
    )
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{charted.namespace}/leases"
    assert not charted.plane.api.items(leases)
    node = charted.object()
    assert not [key for key in node["metadata"].get("annotations", {}) if "vgpu" in key]
    assert not {"volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"} & node["status"]["capacity"].keys()
    folders = (HOOK, CDI, DEVICE_PLUGINS)
    files = [path.name for folder in folders for path in charted.node.path(folder).rglob("*") if "vgpu" in path.name]
    assert not [name for name in files if name != "vgpu"]


def left_over(release: Charted, before: frozenset[str]) -> set[str]:
    """The objects that are there since then and are of the release's namespace, or carry its name."""
    return {each for each in everything(release.plane.api) - before if release.namespace in each} - own(release)


def says_nothing(release: Charted) -> bool:
    """Whether the node has no word of an agent left, nor slots on offer."""
    found = release.object()
    words = [*found["metadata"].get("annotations", {}), *found["status"]["capacity"]]
    return release.slots() == 0 and not [word for word in words if "vgpu" in word and word != SLOT]


@pytest.mark.parametrize(
    "change",
    [
        {"volcano-vgpu": {"agent": {"enabled": False}}},
        {"volcano-vgpu": {"agent": {"enabled": False}}, "allocator": {"enabled": False}},
        {"volcano-vgpu": {"agent": {"nodeSelector": {"test/cards": "none"}}}},
        {"volcano-vgpu": {"agent": {"affinity": {"nodeAffinity": affinity("test/cards")}}}},
    ],
    ids=["agents-off", "all-off", "selector", "affinity"],
)
def test_a_node_that_an_upgrade_leaves_without_an_agent_says_nothing_any_more(
    charted: Charted, change: Mapping[str, Mapping[str, object]]
) -> None:
    charted.wait_ready()
    wanted = laid(change, charted.values())
    try:
        charted.helm.change("upgrade", "one", charted.namespace, values=wanted, chart=UMBRELLA)
        wait_until(lambda: says_nothing(charted), "the node says nothing", 90, show=charted.story)
        served = change.get("allocator", {}).get("enabled") is not False
        wait_until(lambda: charted.answers(charted.plain_port) is served, "the server goes on", 60, show=charted.story)
        charted.uninstall()
    except HelmError as error:
        pytest.fail(f"{error}\n{charted.story()}")


NEURON_KEYS = frozenset({"hami-plugins.io/neuron-ls", "hami.io/node-register-aws-neuron"})


def neuron_agent(release: Charted) -> Mapping[str, object]:
    """Values of the agent on this node, which is one of Trainium by a file."""
    (release.node.path(FILES) / "trn.yaml").write_text("instance: trn1.32xlarge\n")
    allocator = release.allocator()
    return {
        **{key: allocator[key] for key in ("hostNetwork", "listenHost", "extraEnv", "image")},
        "enabled": True,
        "port": release.agent_port,
        "affinity": {"nodeAffinity": None},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "extraArgs": ["--machine-file=/machine/trn.yaml"],
        "extraVolumes": [{"name": "machine", "hostPath": {"path": FILES}}],
        "extraVolumeMounts": [{"name": "machine", "mountPath": "/machine", "readOnly": True}],
    }


def test_a_node_is_as_it_was_after_an_upgrade_that_turns_its_neuron_agent_off(bare: Charted) -> None:
    plain = {"volcano-vgpu": {"enabled": False}, "allocator": bare.allocator(vendors=["AWSNeuron"])}
    on = laid({"allocator": {"neuronAgent": neuron_agent(bare)}}, plain)
    off = laid({"allocator": {"neuronAgent": {"enabled": False}}}, on)

    def written() -> set[str]:
        return {key for key in bare.object()["metadata"].get("annotations", {}) if "neuron" in key}

    assert not written()
    try:
        bare.helm.change("install", "one", bare.namespace, values=on, chart=UMBRELLA)
        wait_until(lambda: written() >= NEURON_KEYS, "the agent describes its node", 120, show=bare.story)
        bare.helm.change("upgrade", "one", bare.namespace, values=off, chart=UMBRELLA)
        assert not written()
        assert not bare.pods("neuron")
        assert not bare.pods("uninstall")
    except HelmError as error:
        pytest.fail(f"{error}\n{bare.story()}")
    finally:
        bare.uninstall()


def neuron_pods_are_marked(release: Charted) -> None:
    """The API server trusts the webhooks of the allocator."""
    asked = pod("probe", container(limits={"aws.amazon.com/neuron": "1"}))

    def marked() -> bool:
        made = release.plane.api.request("POST", pods("default"), asked, query={"dryRun": "All"})
        return "hami-plugins.io/allocator" in made.decode()

    wait_until(marked, "a pod that asks for Neuron devices is marked", 60)


def the_node_promises_limits_and_pods_are_translated(release: Charted) -> None:
    """The part on nodes has put the library there, and the API server trusts the webhooks."""
    asked = pod("probe", container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}))
    asked["metadata"]["labels"] = {"hami-plugins.io/koordinator": "translate"}

    def translated() -> bool:
        made = release.plane.api.request("POST", pods("default"), asked, query={"dryRun": "All"})
        return "koordinator.sh/gpu.shared" in made.decode()

    wait_until(translated, "a pod in HAMi's words is translated", 60, show=release.story)
    promised = "the node promises limits"
    wait_until(lambda: ISOLATION in release.object()["metadata"]["labels"], promised, 60, show=release.story)


PAGES: Mapping[str, tuple[str, Callable[[Charted], None]]] = {
    "volcano-vgpu": ("vgpu", lambda release: release.wait_ready()),
    "allocator": ("hami", neuron_pods_are_marked),
    "koordinator-adapter": ("adapter", the_node_promises_limits_and_pods_are_translated),
}
"""The namespace that a page's commands make, and what is true after those that install."""

SERVERS = {"allocator": ("allocator", "hami"), "koordinator-adapter": ("server", "koordinator-adapter")}
"""What the server of a page's release is called in its labels, and the release."""


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_do_what_it_says(
    bare: Charted, programs: Mapping[str, Path], tmp_path: Path, numbers: Numbers, name: str
) -> None:
    before = everything(bare.plane.api)
    define_devices(bare.plane)
    page = Page(CHARTS / name / "README.md")
    namespace, then = PAGES[name]
    values = page.values()
    assert objects(bare.helm.template(UMBRELLA, values))
    off = {"enabled": False}
    sets: Mapping[str, Callable[[], Mapping[str, object]]] = {
        "volcano-vgpu": bare.values,
        "allocator": lambda: {"volcano-vgpu": off, name: bare.allocator(vendors=["AWSNeuron"])},
        "koordinator-adapter": lambda: {"volcano-vgpu": off, "allocator": off, name: bare.koordinator()},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(dict(sets[name]())))
    (tmp_path / "charts").symlink_to(UMBRELLA.parent)
    terminal = terminal_of(bare, programs, tmp_path)
    for at, block in enumerate(page.blocks):
        done = terminal.run(block)
        assert done.returncode == 0, f"{block}\n{done.stdout}{bare.story()}"
        if at == 0:
            then(bare)
            if name in SERVERS:
                seconds = bare.seconds_to_ready(*SERVERS[name], namespace)
                numbers.add(READY.format(name), f"{seconds:.0f} s", "3 s")
    bare.plane.api.delete(f"/api/v1/namespaces/{namespace}")
    wait_until(partial(gone, bare, before, namespace), "nothing is left", 60)


def test_what_the_job_at_the_end_would_have_done_can_be_done_by_hand(
    charted: Charted, programs: Mapping[str, Path], before: frozenset[str], tmp_path: Path
) -> None:
    """As the page has it for an image that cannot be pulled: without Helm's hooks."""
    charted.wait_ready()
    block = Page(VOLCANO_VGPU / "README.md").console("--no-hooks")
    names = {
        "vgpu/vgpu-": f"{charted.namespace}/one-",
        "--namespace vgpu": f"--namespace {charted.namespace}",
        "uninstall vgpu": "uninstall one",
        "instance=vgpu": "instance=one",
    }
    for written, ours in names.items():
        assert written in block
        block = block.replace(written, ours)
    terminal_of(charted, programs, tmp_path).lines(block)
    wait_until(lambda: says_nothing(charted), "the node says nothing", 60)
    wait_until(lambda: not left_over(charted, before), "no object is left", 60)


def terminal_of(release: Charted, programs: Mapping[str, Path], folder: Path) -> Terminal:
    """Where the commands of a page are typed."""
    ours = Path(sys.executable).with_name("hami-plugins")
    names = {"helm": programs["helm4"], "kubectl": programs["kubectl"], "hami-plugins": ours}
    homes = {f"HELM_{kind}_HOME": str(folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
    return Terminal(folder, names, {**homes, "KUBECONFIG": str(release.plane.admin_kubeconfig)})


def gone(release: Charted, before: frozenset[str], namespace: str) -> bool:
    """Whether nothing of a namespace is there any more, nor what carries its name."""
    marks = (f"{namespace}/", f" /{namespace}.", f" /{namespace}")
    if ISOLATION in release.object()["metadata"]["labels"]:
        return False
    return not {each for each in everything(release.plane.api) - before if any(mark in each for mark in marks)}


def own(charted: Charted) -> set[str]:
    """The objects of every namespace."""
    place = charted.namespace
    return {
        f"/api/v1/namespaces /{place}",
        f"/api/v1/serviceaccounts {place}/default",
        f"/api/v1/configmaps {place}/kube-root-ca.crt",
    }
