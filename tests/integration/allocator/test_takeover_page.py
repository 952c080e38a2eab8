"""The page about a takeover, followed line by line in a cluster that HAMi has filled, and back again."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.kube.client import connect_to
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.wire import objects
from tests.golden import corpus
from tests.golden.test_corpus import FOLDER, shipped
from tests.integration.allocator.hami_pods import (
    ALLOCATED,
    NODE,
    a_node,
    a_pod,
    bind,
    call,
    notes_of,
)
from tests.integration.allocator.hami_scheduler import HamiScheduler, served
from tests.integration.allocator.sites import MARK, Site, site
from tests.integration.allocator.test_takeover_check import complete, hami_runs
from tests.integration.allocator.test_takeover_start import namespace, pods_of
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.unit.allocations.takeover.situations import component, hamis
from tests.waiting import wait_for

PAGE = Path(__file__).parents[3] / "docs" / "tasks" / "take-over-hami.md"
VENDORS = ("cambricon", "hygon", "ascend910b4", "metax-sgpu", "kunlun-vxpu")
VALUES = "schedulerName: hami-scheduler\ndevices: {ascend: {enabled: true}}\nscheduler: {replicas: 1}\n"
DEVICES = yaml.safe_dump({"kind": "ConfigMap", "data": {"device-config.yaml": "nvidia: {deviceSplitCount: 10}\n"}})


def sections() -> Mapping[str, list[str]]:
    """The command lines of the page, by the heading above them."""
    parts = re.split(r"^##+ (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    blocks = {title: re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for title, text in found.items()}
    return {title: "".join(held).splitlines() for title, held in blocks.items()}


class Operator:
    """Types the lines of the page. Other projects' programs have a double here, by how the line begins."""

    def __init__(self, place: Site, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.folder, self.capsys = place, folder, capsys
        self.kubeconfig = str(place.server.kubeconfig(folder.parent / "kubeconfig"))
        self.client: Client | None = None
        self.answers: list[tuple[str, str]] = []
        self.doubles: Mapping[str, Callable[[], object]] = {
            "helm get values": lambda: (folder / "hami-values.yaml").write_text(VALUES),
            "kubectl -n kube-system get configmap": lambda: (folder / "hami-devices.yaml").write_text(DEVICES),
            "hami-plugins allocator run": self.start,
            "hami-plugins allocator webhooks": self.install,
            "hami-plugins allocator trust": lambda: None,
            "kubectl -n kube-system scale deployment hami-scheduler --replicas 0": self.stop_hami,
            "kubectl -n kube-system scale deployment hami-scheduler --replicas 1": self.start_hami,
            "kubectl delete mutatingwebhookconfiguration": lambda: place.server.delete(
                "mutatingwebhookconfigurations", "hami-webhook"
            ),
        }

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.folder / "allocator.yaml").read_text())
        return found

    def follow(self, title: str) -> dict[str, Any]:
        """Types all lines of a section; what ``check`` said last."""
        for line in sections()[title]:
            double = next((each for begin, each in self.doubles.items() if line.startswith(begin)), None)
            self.type(line) if double is None else double()
        checked = [text for line, text in self.answers if " check " in line]
        return dict(json.loads(checked[-1])) if checked else {}

    def type(self, line: str) -> None:
        """One line of ours, with output into a file; ``check`` as a document."""
        command, _, file = line.partition(" > ")
        words = shlex.split(command)[1:]
        live = ["--kubeconfig", self.kubeconfig] if {"check", "audit", "clean"} & set(words) else []
        code = edge.run([*words, *live, *(["-o", "json"] if "check" in words else [])])
        out, said = self.capsys.readouterr()
        assert code != Exit.UNABLE, (line, said)
        if file:
            (self.folder / file).write_text(out)
        self.answers.append((line, out))

    def start(self) -> None:
        self.client = self.place.start(**self.settings)

    def install(self) -> None:
        assert self.client is not None
        self.type("hami-plugins allocator webhooks --config allocator.yaml")
        assert yaml.safe_load(self.answers[-1][1])["kind"] == "MutatingWebhookConfiguration"
        self.place.install(self.client, **self.settings)

    def stop_hami(self) -> None:
        self.place.server.delete("pods", "hami-scheduler-1", "hami", grace=0)

    def start_hami(self) -> None:
        raw = component("hami-scheduler-1")
        raw["spec"] = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        self.place.put({"apiVersion": "v1", "kind": "Pod", **raw})


def old_pods(place: Site) -> dict[str, dict[str, Any]]:
    """The pods that HAMi has bound, as the API server has them."""
    every = place.server.objects("pods")
    held = [each for each in every if MARK not in notes_of(each) and each["metadata"]["namespace"] != "hami"]
    return {each["metadata"]["uid"]: copy.deepcopy(each) for each in held}


def as_hami_reads(place: Site) -> dict[str, tuple[Any, ...]]:
    """The usage of every device, as HAMi's cache makes it from annotations of pods."""
    reader = RecordReader(shipped())
    found: dict[str, tuple[Any, ...]] = {}
    for raw in place.server.objects("nodes"):
        entry = NodeBuilder(shipped()).entry(objects.node_object(raw), NodeFacts())
        pods = [each for each in place.server.objects("pods") if notes_of(each).get(NODE) == entry.name]
        running = [each for each in pods if each["status"].get("phase") not in corpus.FINISHED]
        records = [settled(reader.record(objects.pod(each))[0], entry) for each in running]
        found[entry.name] = with_pods(entry, records).state.usage
    return found


@pytest.fixture
def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """A cluster of six vendors with running pods, HAMi's programs, and an operator in an empty folder."""
    chosen: dict[str, Any] = {}
    for case in corpus.cases([FOLDER / "hami.jsonl.gz"]):
        if case["vendor"] in VENDORS and case["pods"]:
            chosen.setdefault(case["vendor"], case)
    with site(tmp_path, a_node("n1"), *(case["node"] for case in chosen.values())) as place:
        place.put(*(namespace(case["id"]) for case in chosen.values()))
        place.put(*(raw for case in chosen.values() for raw in pods_of(case)))
        hami_runs(place)
        folder = tmp_path / "work"
        folder.mkdir()
        monkeypatch.chdir(folder)
        yield Operator(place, folder, capsys)


def placed(operator: Operator, name: str, memory: int) -> dict[str, Any]:
    """A new pod, bound as kube-scheduler binds it."""
    client = operator.client
    assert client is not None
    (pod,) = operator.place.create(a_pod(name, memory))
    wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
    assert bind(client, pod, "n1") == ""
    return operator.place.server.get("pods", name, "default")


def test_the_page_takes_over_without_touching_a_running_pod_and_leads_back(operator: Operator) -> None:
    place = operator.place
    scheduler = HamiScheduler(connect_to(place.server.url, component="hami-scheduler"))
    old = place.put(a_pod("old", 30_000, schedulerName="hami-scheduler"))[0]
    scheduler.filter(old, "n1", "GPU-n1-0,NVIDIA,30000,0:")
    assert scheduler.bind(old, "n1") == ""
    before = old_pods(place)

    assert operator.follow("Before")["stage"] == "before"
    operator.follow("1. Start the allocator")
    assert operator.follow("2. Install the webhooks")["stage"] == "during"

    late = place.put(a_pod("late", 30_000, schedulerName="hami-scheduler"))[0]
    scheduler.filter(late, "n1", "GPU-n1-0,NVIDIA,30000,0:")
    assert scheduler.bind(late, "n1") == ""
    moved = notes_of(place.server.get("pods", "late", "default"))[ALLOCATED]
    served(place, "late")

    operator.follow("3. Change the scheduler")
    assert operator.follow("4. Remove HAMi's webhook")["stage"] == "after"
    ours = placed(operator, "ours", 10_000)

    assert moved == "GPU-n1-1,NVIDIA,30000,0:;"
    assert notes_of(ours)[ALLOCATED].endswith(",NVIDIA,10000,0:;")
    after = old_pods(place)
    assert {uid: after[uid] for uid in before} == before
    client = operator.client
    assert client is not None
    snapshot = client.server.snapshot()
    assert snapshot is not None
    assert as_hami_reads(place) == {entry.name: entry.state.usage for entry in snapshot.nodes}
    assert max(used.memory for used in as_hami_reads(place)["n1"]) == 40_000

    operator.place.end(client)
    place.clients.remove(client)
    place.put({"apiVersion": "admissionregistration.k8s.io/v1", **complete(hamis())})
    assert operator.follow("Go back")["stage"] == "before"
    assert max(used.memory for used in as_hami_reads(place)["n1"]) == 40_000
