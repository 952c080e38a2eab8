"""Manifests after users' reports, with the verdict that was worked out from the references before anything was run.

A file of ``reports/`` is a list of cases::

    - id: hami-01
      about: what the user wants, and what happens to him upstream
      source: the section or row that decides the verdict
      cluster: a-name of clusters.yaml, or absent
      manifest: |
        ...
      runs:
      - {run: vet, rules: {HP211: error}}
      - {run: plan, pods: {main: fits}, says: [...], never: [...]}
      - {run: translate --to volcano, fidelity: [lossy], says: [...]}

``rules`` are all rules that find something, with the worst severity of each; ``pods`` the status of pods by name;
``fidelity`` that of each item; ``says`` and ``never`` are parts of the text that the command prints (blanks and line
breaks count as one blank).
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from hami_plugins.cli import main

FOLDER: Final = Path(__file__).parent / "reports"
_COMMANDS: Final = {"vet": ["vet"], "plan": ["plan"], "translate": ["koordinator", "translate"]}
_SEVERITIES: Final = ("note", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One command on a case, with what is expected of it."""

    case: Mapping[str, Any]
    expected: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The case and the command."""
        return f"{self.case['id']}: {self.expected['run']}"


def runs() -> Iterator[Run]:
    """Every command of every case, by file."""
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name != "clusters.yaml":
            for case in yaml.safe_load(path.read_text(encoding="utf-8")):
                yield from (Run(case=case, expected=expected) for expected in case["runs"])


def wrong(run: Run, folder: Path) -> list[str]:
    """Unexpected parts of the answer; ``folder`` is for the files of the command."""
    arguments = _arguments(run, folder)
    told = ["--report", "text"] if arguments[0] == "koordinator" else []
    text = re.sub(r"\s+", " ", _printed([*arguments, *told]))
    found = [f"does not say {each!r}" for each in run.expected.get("says", ()) if each not in text]
    found += [f"says {each!r}" for each in run.expected.get("never", ()) if each in text]
    for member, read in (("rules", _rules), ("pods", _pods), ("fidelity", _fidelity)):
        if member in run.expected:
            option = "--report" if member == "fidelity" else "-o"
            answer = read(json.loads(_printed([*arguments, option, "json"])))
            if answer != run.expected[member]:
                found.append(f"{member}: {answer}")
    return [*found, text] if found else []


def _arguments(run: Run, folder: Path) -> list[str]:
    word, *options = run.expected["run"].split()
    manifest = folder / "manifest.yaml"
    manifest.write_text(run.case["manifest"], encoding="utf-8")
    arguments = [*_COMMANDS[word], "-f", str(manifest), *options]
    if "cluster" in run.case and word != "translate":
        dump = folder / "cluster.json"
        dump.write_text(json.dumps(cluster(run.case["cluster"])), encoding="utf-8")
        arguments += ["--snapshot", str(dump)]
    return arguments


def _printed(arguments: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main(arguments)
    return out.getvalue()


def _rules(answer: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in answer["findings"]:
        found[each["rule"]] = max(each["severity"], found.get(each["rule"], "note"), key=_SEVERITIES.index)
    return found


def _pods(answer: Any) -> dict[str, str]:
    return {each["name"]: each["stage"] for each in answer["pods"]}


def _fidelity(answer: Any) -> list[str]:
    return [each["fidelity"] for each in answer["items"]]


def cluster(name: str) -> Mapping[str, Any]:
    """A cluster of ``clusters.yaml`` as ``kubectl get ... -o json`` lists it."""
    groups = yaml.safe_load((FOLDER / "clusters.yaml").read_text(encoding="utf-8"))[name]
    return {"kind": "List", "apiVersion": "v1", "items": [each for group in groups for each in _objects(group)]}


def _objects(group: Mapping[str, Any]) -> Iterator[Any]:
    if "raw" in group:
        yield group["raw"]
        return
    name, count = group["node"], group["cards"]
    cards = [_MAKERS[group["agent"]](group, f"{name}-{at}", at) for at in range(count)]
    annotations, offered = _OFFERS[group["agent"]](group, cards)
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **offered, **group.get("offers", {})}
    labels = {"kubernetes.io/hostname": name, **group.get("labels", {})}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {**annotations, **group.get("annotations", {})}},
        "spec": {"taints": group.get("taints", [])},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    if group["agent"] == "koordinator":
        yield {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device",
            "metadata": {"name": name, "labels": {"node.koordinator.sh/gpu-vendor": group.get("maker", "nvidia")}},
            "spec": {"devices": cards},
        }


def _hami_card(group: Mapping[str, Any], name: str, at: int) -> Any:
    return {
        "id": f"GPU-{name}",
        "index": at,
        "count": group.get("slots", 10),
        "devmem": group["memory"],
        "devcore": group.get("cores", 100),
        "type": group["model"],
        "numa": at * 2 // max(group["cards"], 1),
        "health": at not in group.get("unhealthy", ()),
    }


def _volcano_card(group: Mapping[str, Any], name: str, at: int) -> str:
    health = str(at not in group.get("unhealthy", ())).lower()
    return f"GPU-{name},{group.get('slots', 10)},{group['memory']},{group['model']},{health},hami-core:"


def _koordinator_card(group: Mapping[str, Any], name: str, at: int) -> Any:
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": f"{group['memory']}Mi",
        "koordinator.sh/gpu-memory-ratio": "100",
        **group.get("of_card", {}),
    }
    return {"type": "gpu", "id": f"GPU-{name}", "minor": at, "health": True, "resources": resources}


def _hami_offers(group: Mapping[str, Any], cards: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
    annotations = {group["register"]: json.dumps(cards)}
    if "handshake" in group:
        annotations[group["handshake"]] = "Reported 2026.11.01 10:00:00"
    return annotations, {group["resource"]: str(len(cards) * group.get("slots", 10))}


def _volcano_offers(group: Mapping[str, Any], cards: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    number = len(cards)
    return (
        {"volcano.sh/node-vgpu-register": "".join(cards), "volcano.sh/node-vgpu-handshake": "Reported now"},
        {
            "volcano.sh/vgpu-number": str(number * group.get("slots", 10)),
            "volcano.sh/vgpu-memory": str(number * group["memory"]),
            "volcano.sh/vgpu-cores": str(number * 100),
        },
    )


def _koordinator_offers(group: Mapping[str, Any], cards: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
    percent = str(len(cards) * 100)
    names = ("gpu", "gpu.shared", "gpu-core", "gpu-memory-ratio")
    memory = f"{len(cards) * group['memory']}Mi"
    return {}, {**{f"koordinator.sh/{name}": percent for name in names}, "koordinator.sh/gpu-memory": memory}


_MAKERS: Final = {
    "hami": _hami_card,
    "volcano": _volcano_card,
    "koordinator": _koordinator_card,
    "capacity": lambda *_: None,
}
_OFFERS: Final = {
    "hami": _hami_offers,
    "volcano": _volcano_offers,
    "koordinator": _koordinator_offers,
    "capacity": lambda *_: ({}, {}),
}
