"""Recorded cases of the real HAMi, asked of an allocator over sockets: its webhook, then ``filter`` and ``bind``.

Each case has a namespace of its own, so that many are in one cluster at once; the names of their nodes differ already.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hami_plugins.allocations.manifests.webhooks import POD_PATH
from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.engine.registry import Registry
from hami_plugins.sandbox.apiserver import patches
from tests.golden import corpus
from tests.golden.rules import Answer, Case
from tests.integration.allocator.sites import MARK, Site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

OF_BIND = ("hami.io/bind-phase", "hami.io/bind-time")
"""HAMi's ``bind`` writes these, and its answers were not recorded."""

REQUESTS_ONLY = "requests-only"
"""The tag of pods that have limits without requests, or requests of devices without limits. The API server adds the
former before it asks webhooks, and creates none of the latter, so that none can be bound."""

UNCLAIMED = "asks for no devices that this server allocates"

_HOUR = 3_600
_LOOK = 0.2
_TRIES = 10


class LiveCorpus:
    """Cases on an allocator. ``registry`` has the vendors as the answers without a server were made with."""

    def __init__(self, place: Site, client: Client, registry: Registry) -> None:
        self._place = place
        self._client = client
        self._registry = registry

    @contextmanager
    def shown(self, cases: Sequence[Case]) -> Iterator[None]:
        """The nodes and running pods of these cases, once the allocator knows them; then they are gone again."""
        nodes = {case["node"]["metadata"]["name"] for case in cases}
        for case in cases:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case["id"]}}
            pods = map(_creatable, _apart(case, "pods"))
            self._place.put(namespace, case["node"], *_apart(case, "quotas"), *pods)
        count = sum(len(case["pods"]) for case in cases)
        try:
            self._settled(nodes, count)
            yield
        finally:
            for kind in ("pods", "resourcequotas", "nodes"):
                for each in self._place.server.objects(kind):
                    metadata = each["metadata"]
                    self._place.server.delete(kind, metadata["name"], metadata.get("namespace", ""), grace=0)
        self._settled(set(), 0)

    def _settled(self, nodes: set[str], pods: int) -> None:
        """The allocator knows these; each look costs it as much as an answer, so that looks are few."""

        def known() -> bool:
            found = (self._pods(), self._nodes()) == (pods, nodes)
            if not found:
                time.sleep(_LOOK)
            return found

        wait_for(known, "the allocator knows the cases and no others", timeout=240)

    def answer(self, case: Case) -> Answer:
        """The allocator's answer to a case that is shown, in the words of the corpus.

        Our own reasons have other words than HAMi's: where the allocator refuses what is refused without a server,
        they are taken from there.
        """
        plain = corpus.answer(case, self._registry)
        pod, admitted = self._admitted(case, plain)
        if not admitted.allowed:
            return replace(admitted, fits=False, annotations={})
        node = case["node"]["metadata"]["name"]
        reply = self._call("filter", Pod=pod, NodeNames=[node])
        failed = {**(reply["FailedNodes"] or {}), **(reply.get("FailedAndUnresolvableNodes") or {})}
        refusal = reply["Error"] or failed.get(node, "")
        if refusal:
            assert not reply["NodeNames"], reply
            assert "not known" not in refusal, refusal
            return replace(admitted, fits=False, reason="" if plain.fits else plain.reason, annotations={})
        assert reply["NodeNames"] == [node], reply
        written = plain.annotations if REQUESTS_ONLY in case["tags"] else self._bound(pod, node)
        return replace(admitted, fits=True, reason="", annotations=written)

    def _admitted(self, case: Case, plain: Answer) -> tuple[dict[str, Any], Answer]:
        """The pod as the allocator's webhook leaves it, and the answer with what that says."""
        (raw,) = _apart(case, "pod")
        resource, space = {"group": "", "version": "v1", "resource": "pods"}, case["id"]
        status, response = self._client.review(
            POD_PATH, uid="r", operation="CREATE", resource=resource, namespace=space, object=raw
        )
        assert status == 200, response
        if not response["allowed"]:
            why = response["status"]
            return raw, replace(plain, allowed=False, code=why["code"], message=_denial(plain, why["message"]))
        operations = json.loads(base64.b64decode(response.get("patch") or "W10="))
        pod = patches.json_patch(raw, operations)
        scheduler = pod["spec"].get("schedulerName", "")
        if REQUESTS_ONLY in case["tags"]:
            mutated = plain.mutated
        else:
            mutated = _unmarked(pod, case["pod"])
            same = mutated == {**case["pod"], "spec": {**case["pod"]["spec"], "schedulerName": scheduler}}
            mutated = None if same else mutated
        return pod, replace(plain, allowed=True, code=None, message="", scheduler=scheduler, mutated=mutated)

    def _bound(self, pod: dict[str, Any], node: str) -> dict[str, str]:
        """The annotations that ``bind`` leaves on the pod, but for those that it had."""
        (made,) = self._place.put(_creatable({**pod, "status": {"phase": "Pending"}}))
        metadata, before = made["metadata"], made["metadata"].get("annotations") or {}
        name, namespace = metadata["name"], metadata["namespace"]
        asked = {"PodName": name, "PodNamespace": namespace, "PodUID": metadata["uid"], "Node": node}
        reply = self._call("bind", **asked)
        for _ in range(_TRIES):  # kube-scheduler tries again as well, where a busy API server has not answered in time
            if "is not known yet" in reply["Error"]:
                reply = self._call("bind", **asked)
        if UNCLAIMED in reply["Error"]:
            return {}
        assert not reply["Error"], reply
        bound = self._place.server.get("pods", name, namespace)
        assert bound["spec"]["nodeName"] == node
        after: dict[str, str] = bound["metadata"]["annotations"]
        written = {key: value for key, value in after.items() if before.get(key) != value}
        assert not written.keys() - {MARK} or written["hami.io/bind-phase"] == "allocating", written
        return {key: _untimed(value) for key, value in written.items() if key not in (*OF_BIND, MARK)}

    def _call(self, verb: str, **body: Any) -> Any:
        status, text = self._client.post(self._client.plain(f"{SCHEDULER_PATH}/{verb}"), json.dumps(body).encode())
        assert status == 200, text
        return json.loads(text)

    def _nodes(self) -> set[str]:
        snapshot = self._client.server.snapshot()
        return set() if snapshot is None else {str(each.name) for each in snapshot.nodes}

    def _pods(self) -> int:
        return int(self._place.value(self._client, "pods"))


def _apart(case: Case, kind: str) -> list[dict[str, Any]]:
    """Objects of a case in the namespace that the case has alone."""
    listed = case.get(kind) or []
    shown = [listed] if isinstance(listed, dict) else listed
    return [copy.deepcopy({**each, "metadata": {**each["metadata"], "namespace": case["id"]}}) for each in shown]


def _unmarked(pod: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """The pod without our mark, in the namespace that it was submitted to."""
    found = copy.deepcopy(pod)
    metadata = found["metadata"]
    metadata["namespace"] = raw["metadata"]["namespace"]
    metadata.get("annotations", {}).pop(MARK, None)
    if metadata.get("annotations") == {} and "annotations" not in raw["metadata"]:
        del metadata["annotations"]
    return found


def _creatable(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with requests that are equal to the limits of devices: the API server creates no other. HAMi's webhook
    makes others of some, which were recorded without an API server."""
    made = copy.deepcopy(pod)
    for kind in ("initContainers", "containers"):
        for container in made["spec"].get(kind) or []:
            found = container.get("resources") or {}
            limits, requests = found.get("limits") or {}, found.get("requests") or {}
            requests.update({name: limits[name] for name in requests if "/" in name and name in limits})
    return made


def _denial(plain: Answer, message: str) -> str:
    """HAMi's message where ours begins with it, or says that alone."""
    return plain.message if plain.message and plain.message in message else message


def _untimed(text: str) -> str:
    """Times of now as the corpus spells them."""
    now = time.time_ns()

    def word(found: re.Match[str]) -> str:
        digits = found.group()
        for unit, spelled in ((1, "<unix-nanoseconds>"), (10**9, "<unix-seconds>")):
            if 0 <= now // unit - int(digits) <= _HOUR * 10**9 // unit:
                return spelled
        return digits

    return re.sub(r"\b\d{10}(?:\d{9})?\b", word, text)
