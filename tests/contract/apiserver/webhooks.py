"""Admission webhooks: who is asked what, and what the answers do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import Response

from tests.contract.apiserver.api import Api, Object, Reply
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.hooks import CONFIGURATIONS, Hooks, allow, annotate, hooks, patch, refuse, rule
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.pods import binding, pod

MARKED = "has(object.metadata.annotations) && 'test.example/mark' in object.metadata.annotations"
BINDINGS = rule("pods/binding", "bindings", operations=("CREATE",))


def told(reply: Reply, code: int) -> str:
    assert reply.code == code, reply
    message: str = reply.body["message"]
    return message


def a_map(name: str = "a", **metadata: object) -> Object:
    return named(name, annotations={"first": "yes"}, **metadata)


def notes(reply: Reply) -> dict[str, str]:
    assert reply.code in (200, 201), reply
    found: dict[str, str] = reply.body["metadata"].get("annotations", {})
    return found


def make(hooked: Hooks, body: Object | None = None, **query: Any) -> Reply:
    return hooked.api.ask("POST", f"{hooked.space}/configmaps", body or a_map(), **query)


@contextmanager
def slow(hooked: Hooks, name: str = "slow") -> Iterator[tuple[threading.Event, threading.Event]]:
    """A webhook that says that it was asked, and answers when it is let."""
    arrived, go_on = threading.Event(), threading.Event()

    def wait(_: Object) -> Object:
        arrived.set()
        go_on.wait(5)
        return {"allowed": True}

    hooked.on(name, wait)
    try:
        yield arrived, go_on
    finally:
        go_on.set()


@contextmanager
def meanwhile(hooked: Hooks, method: str, path: str, body: Object | None = None) -> Iterator[list[Reply]]:
    """A request under way in the background; its answer is there after the block."""
    got: list[Reply] = []
    asking = threading.Thread(target=lambda: got.append(hooked.api.ask(method, path, body)))
    asking.start()
    yield got
    asking.join()


@case("a mutating webhook is told what is asked for, and its patch is laid over the object")
def mutated(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("a", annotate("test.example/x", "1"))
        hooked.configure(hooked.webhook("a"))
        reply = make(hooked)
        assert notes(reply) == {"first": "yes", "test.example/x": "1"}
        assert api.get(f"{hooked.space}/configmaps/a")["metadata"]["annotations"] == notes(reply)
        [(request, query)] = hooked.asked["a"]
        assert query == {"timeout": ["5s"]}
        assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert request["requestResource"] == request["resource"]
        assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", hooked.namespace)
        assert (request["dryRun"], request["oldObject"], "subResource" in request) == (False, None, False)
        assert request["options"]["kind"] == "CreateOptions"
        assert request["userInfo"]["username"]
        assert request["object"]["metadata"]["annotations"] == {"first": "yes"}
        assert (request["object"]["kind"], request["object"]["metadata"]["namespace"]) == (
            "ConfigMap",
            hooked.namespace,
        )
        assert "uid" not in request["object"]["metadata"]


@case("a refusal of a webhook comes with its code, and its reason in a sentence that names it")
def refused(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.configure(hooked.webhook("a"))
        hooked.on("a", refuse(message="no card left", code=409))
        assert told(make(hooked), 409) == 'admission webhook "a.test.example" denied the request: no card left'
        hooked.on("a", refuse(reason="NotToday"))
        assert told(make(hooked), 400) == 'admission webhook "a.test.example" denied the request: NotToday'
        hooked.on("a", refuse())
        assert told(make(hooked), 400) == 'admission webhook "a.test.example" denied the request without explanation'
        assert api.ask("GET", f"{hooked.space}/configmaps/a").code == 404


@case("warnings of a webhook are headers of the answer")
def warned(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("a", lambda _: {"allowed": True, "warnings": ['mind the "gap"']})
        hooked.configure(hooked.webhook("a"))
        headers = {name.lower(): value for name, value in make(hooked).headers.items()}
        assert headers["warning"] == '299 - "mind the \\"gap\\""'


@case("webhooks are asked by name of their configuration, each with what the earlier ones made, validating ones last")
def in_order(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("one", annotate("one", "1"))
        hooked.on("two", annotate("two", "2"))
        hooked.on("three", allow)
        hooked.configure(hooked.webhook("two"), suffix="-b")
        hooked.configure(hooked.webhook("one"), suffix="-a")
        hooked.configure(hooked.webhook("three"), kind="validating")
        made = make(hooked)
        assert notes(made) == {"first": "yes", "one": "1", "two": "2"}
        seen = [hooked.requests(name)[0]["object"]["metadata"] for name in ("one", "two", "three")]
        assert [sorted(each["annotations"]) for each in seen] == [
            ["first"],
            ["first", "one"],
            ["first", "one", "two"],
        ]
        assert seen[2]["uid"] == made.body["metadata"]["uid"]


@case("a validating webhook refuses as a mutating one does, and may not patch")
def validated(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.configure(hooked.webhook("a"), kind="validating")
        hooked.on("a", refuse(message="no", code=422))
        assert told(make(hooked), 422) == 'admission webhook "a.test.example" denied the request: no'
        hooked.on("a", annotate("x", "y"))
        start = 'Internal error occurred: failed calling webhook "a.test.example": received invalid webhook response: '
        assert told(make(hooked), 500).startswith(start)


@case("a webhook that cannot be reached is 500 with the reason, or passed over if its policy is Ignore")
def unreachable(api: Api) -> None:
    with hooks(api) as hooked:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        path = hooked.configure(hooked.webhook("away", port=port))
        assert told(make(hooked), 500) == (
            'Internal error occurred: failed calling webhook "away.test.example": failed to call webhook: '
            f'Post "https://127.0.0.1:{port}/away?timeout=5s": dial tcp 127.0.0.1:{port}: connect: connection refused'
        )
        api.ask("DELETE", path)
        hooked.configure(hooked.webhook("away", port=port, failurePolicy="Ignore"), suffix="-b")
        assert make(hooked).code == 201


@case("a webhook that answers with an HTTP error or with nonsense has failed")
def erroneous(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.configure(hooked.webhook("a"))
        failed = 'Internal error occurred: failed calling webhook "a.test.example": '
        hooked.on("a", lambda _: Response("boom", 500, media_type="text/plain"))
        assert told(make(hooked), 500) == (
            f'{failed}failed to call webhook: an error on the server ("boom") has prevented the request from succeeding'
        )
        hooked.on("a", lambda _: Response("what?", 400, media_type="text/plain"))
        assert told(make(hooked), 500) == (
            f"{failed}failed to call webhook: the server rejected our request for an unknown reason"
        )
        hooked.on("a", lambda _: Response("nonsense", media_type="application/json"))
        assert told(make(hooked), 500).startswith(f"{failed}failed to call webhook: ")
        hooked.on("a", lambda _: {"uid": "another", "allowed": True})
        assert told(make(hooked), 500).startswith(f'{failed}received invalid webhook response: expected response.uid="')
        hooked.on("a", lambda _: Response('{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}'))
        assert told(make(hooked), 500) == f"{failed}received invalid webhook response: webhook response was absent"


@case("a webhook that takes too long has failed")
def too_slow(api: Api) -> None:
    with hooks(api) as hooked, slow(hooked):
        hooked.configure(hooked.webhook("slow", timeoutSeconds=1))
        message = told(make(hooked), 500)
        assert message.startswith('Internal error occurred: failed calling webhook "slow.test.example": ')
        assert "?timeout=1s" in message
        assert message.endswith("context deadline exceeded")


@case("a patch of a webhook that does not apply is 500")
def patched_wrongly(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.configure(hooked.webhook("a", failurePolicy="Ignore"))
        hooked.on("a", patch({"op": "remove", "path": "/data/x"}))
        assert told(make(hooked), 500).startswith("Internal error occurred: ")
        assert api.ask("GET", f"{hooked.space}/configmaps/a").code == 404


@case("a dry run is told to webhooks")
def dry(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("a", annotate("x", "y"))
        hooked.configure(hooked.webhook("a"))
        assert notes(make(hooked, dryRun="All"))["x"] == "y"
        assert [request["dryRun"] for request in hooked.requests("a")] == [True]
        assert api.ask("GET", f"{hooked.space}/configmaps/a").code == 404


@case("a change comes with the old object, a deletion with the old object alone")
def changed_and_deleted(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("a", allow)
        make(hooked)
        hooked.configure(hooked.webhook("a"))
        path = f"{hooked.space}/configmaps/a"
        api.patch(path, {"data": {"k": "v"}})
        assert api.ask("DELETE", path).code == 200
        updated, deleted = hooked.requests("a")
        assert (updated["operation"], updated["name"]) == ("UPDATE", "a")
        assert (updated["object"]["data"], "data" in updated["oldObject"]) == ({"k": "v"}, False)
        assert (deleted["operation"], deleted["name"], deleted["object"]) == ("DELETE", "a", None)
        assert deleted["oldObject"]["data"] == {"k": "v"}


@case("a refused change or deletion leaves the object as it is")
def change_refused(api: Api) -> None:
    with hooks(api) as hooked:
        made = make(hooked).body
        hooked.on("a", refuse(message="hands off", code=403))
        hooked.configure(hooked.webhook("a", rules=[rule("configmaps", operations=("UPDATE", "DELETE"))]))
        path = f"{hooked.space}/configmaps/a"
        assert told(api.ask("PUT", path, {**made, "data": {"k": "v"}}), 403)
        assert told(api.ask("DELETE", path), 403)
        assert api.get(path) == made


@case("a mutating webhook sees no name where it is still to be made, a validating one does")
def generated(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("early", allow)
        hooked.on("late", allow)
        hooked.configure(hooked.webhook("early"))
        hooked.configure(hooked.webhook("late"), kind="validating")
        name = make(hooked, {"metadata": {"generateName": "x-"}}).body["metadata"]["name"]
        [early], [late] = hooked.requests("early"), hooked.requests("late")
        assert (early.get("name", ""), "name" in early["object"]["metadata"]) == ("", False)
        assert (late["name"], late["object"]["metadata"]["name"]) == (name, name)


@case("labels of the object decide who is asked, before or after the change")
def selected(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("a", allow)
        hooked.configure(hooked.webhook("a", objectSelector={"matchExpressions": [{"key": "l", "operator": "Exists"}]}))
        make(hooked)
        make(hooked, a_map("b", labels={"l": "1"}))
        api.patch(f"{hooked.space}/configmaps/b", {"metadata": {"labels": {"l": None}}})
        api.patch(f"{hooked.space}/configmaps/b", {"data": {"k": "v"}})
        assert [request["operation"] for request in hooked.requests("a")] == ["CREATE", "UPDATE"]


@case("a rule for pods is not one for their subresources, and one for a subresource is not one for pods")
def subresources(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("pods", allow)
        hooked.on("status", allow)
        both = [rule("configmaps"), rule("pods")]
        hooked.configure(hooked.webhook("pods", rules=both), hooked.webhook("status", rules=[rule("pods/status")]))
        api.create(f"{hooked.space}/pods", pod("a"))
        api.patch(f"{hooked.space}/pods/a/status", {"metadata": {"annotations": {"x": "y"}}})
        [created], [status] = hooked.requests("pods"), hooked.requests("status")
        assert (created["operation"], "subResource" in created) == ("CREATE", False)
        assert created["object"]["spec"]["restartPolicy"] == "Always"
        assert (status["operation"], status["subResource"], status["name"]) == ("UPDATE", "status", "a")
        assert status["resource"]["resource"] == "pods"


@case("a webhook on bindings is asked about the Binding, and what it adds reaches the pod")
def bound(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("bind", annotate("test.example/grant", "card-1"))
        hooked.configure(hooked.webhook("bind", rules=[BINDINGS]))
        api.create(f"{hooked.space}/pods", pod("a", metadata={"annotations": {"test.example/grant": "stale"}}))
        wanted = binding("a", "contract-node", annotations={"test.example/grant": "older", "y": "z"})
        assert api.ask("POST", f"{hooked.space}/pods/a/binding", wanted).code == 201
        found = api.get(f"{hooked.space}/pods/a")
        assert found["spec"]["nodeName"] == "contract-node"
        assert found["metadata"]["annotations"] == {"test.example/grant": "card-1", "y": "z"}
        [request] = hooked.requests("bind")
        assert (request["kind"]["kind"], request["resource"]["resource"], request["subResource"]) == (
            "Binding",
            "pods",
            "binding",
        )
        assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", hooked.namespace)
        assert request["object"]["target"]["name"] == "contract-node"
        assert request["object"]["metadata"]["namespace"] == hooked.namespace


@case("a binding that is posted the old way comes as a resource of its own")
def bound_the_old_way(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("bind", allow)
        hooked.configure(hooked.webhook("bind", rules=[BINDINGS]))
        api.create(f"{hooked.space}/pods", pod("a"))
        assert api.ask("POST", f"{hooked.space}/bindings", binding("a", "contract-node")).code == 201
        [request] = hooked.requests("bind")
        assert (request["resource"]["resource"], request.get("subResource", ""), request["name"]) == (
            "bindings",
            "",
            "a",
        )


@case("a binding that a webhook refuses leaves the pod as it is")
def binding_refused(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("bind", refuse(message="n1: no card has 30000 MiB left", code=403))
        hooked.configure(hooked.webhook("bind", rules=[BINDINGS]))
        made = api.create(f"{hooked.space}/pods", pod("a"))
        reply = api.ask("POST", f"{hooked.space}/pods/a/binding", binding("a", "contract-node"))
        assert (
            told(reply, 403)
            == 'admission webhook "bind.test.example" denied the request: n1: no card has 30000 MiB left'
        )
        assert api.get(f"{hooked.space}/pods/a") == made


@case("a webhook is asked about a binding that fails afterwards")
def binding_fails_later(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("bind", allow)
        hooked.configure(hooked.webhook("bind", rules=[BINDINGS]))
        api.create(f"{hooked.space}/pods", pod("a", schedulingGates=[{"name": "test.example/gate"}]))
        wrong = binding("a", "contract-node", uid="11111111-1111-1111-1111-111111111111")
        codes = [
            api.ask("POST", f"{hooked.space}/pods/{name}/binding", body).code
            for name, body in (("a", binding("a", "contract-node")), ("a", wrong), ("b", binding("b", "contract-node")))
        ]
        assert codes == [409, 409, 404]
        assert [request["name"] for request in hooked.requests("bind")] == ["a", "a", "b"]


@case("a match condition on a marker annotation chooses exactly the marked")
def marked(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("yes", allow)
        hooked.on("no", allow)
        conditions = [
            hooked.webhook("yes", rules=[BINDINGS], matchConditions=[{"name": "m", "expression": MARKED}]),
            hooked.webhook("no", rules=[BINDINGS], matchConditions=[{"name": "m", "expression": f"!({MARKED})"}]),
        ]
        hooked.configure(*conditions)
        for name, more in (("a", {"test.example/mark": "1"}), ("b", {"other": "1"}), ("c", None)):
            api.create(f"{hooked.space}/pods", pod(name))
            wanted = binding(name, "contract-node", **({"annotations": more} if more else {}))
            assert api.ask("POST", f"{hooked.space}/pods/{name}/binding", wanted).code == 201
        assert [request["name"] for request in hooked.requests("yes")] == ["a"]
        assert [request["name"] for request in hooked.requests("no")] == ["b", "c"]


@case("match conditions see the request's name and namespace, and the target of a Binding; all have to hold")
def conditions_on_the_request(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("a", allow)
        texts = (
            "request.name != 'c'",
            f"request.namespace == '{hooked.namespace}'",
            "object.target.name in ['n1', 'n3']",
        )
        conditions = [{"name": f"c{at}", "expression": text} for at, text in enumerate(texts)]
        hooked.configure(hooked.webhook("a", rules=[BINDINGS], matchConditions=conditions))
        for name, node in (("a", "n1"), ("b", "n2"), ("c", "n3")):
            api.create(f"{hooked.space}/pods", pod(name))
            assert api.ask("POST", f"{hooked.space}/pods/{name}/binding", binding(name, node)).code == 201
        assert [request["name"] for request in hooked.requests("a")] == ["a"]


@case("a match condition that cannot be decided is 403, or passes the webhook over if its policy is Ignore")
def undecided(api: Api) -> None:
    with hooks(api) as hooked:
        expression = "'x' in object.metadata.annotations"
        conditions = [{"name": "m", "expression": expression}]
        hooked.on("a", refuse(message="asked"))
        path = hooked.configure(hooked.webhook("a", matchConditions=conditions))
        message = told(make(hooked, named("a")), 403)
        assert message.startswith('configmaps "a" is forbidden: ')
        assert message.endswith(f"expression '{expression}' resulted in error: no such key: annotations")
        api.ask("DELETE", path)
        hooked.configure(hooked.webhook("a", matchConditions=conditions, failurePolicy="Ignore"), suffix="-b")
        assert make(hooked, named("a")).code == 201


@case("while a webhook is asked, the server answers others, and what they write counts")
def not_alone(api: Api) -> None:
    with hooks(api) as hooked, slow(hooked) as (arrived, go_on):
        made = make(hooked).body
        path = f"{hooked.space}/configmaps/a"
        hooked.configure(
            hooked.webhook("slow", rules=[rule("configmaps")], objectSelector={"matchLabels": {"slow": "1"}})
        )
        mine = {**made, "metadata": {**made["metadata"], "labels": {"slow": "1"}}}
        with meanwhile(hooked, "PUT", path, mine) as got:
            assert arrived.wait(30)
            api.patch(path, {"data": {"theirs": "1"}})
            assert api.get(path)["data"] == {"theirs": "1"}
            go_on.set()
        assert told(got[0], 409).startswith('Operation cannot be fulfilled on configmaps "a": ')
        assert "labels" not in api.get(path)["metadata"]


@case("a patch whose object changes while a webhook is asked is laid over the change, and reviewed again")
def reviewed_again(api: Api) -> None:
    with hooks(api) as hooked, slow(hooked) as (arrived, go_on):
        make(hooked)
        path = f"{hooked.space}/configmaps/a"
        hooked.configure(hooked.webhook("slow", objectSelector={"matchLabels": {"slow": "1"}}))
        body = {"metadata": {"labels": {"slow": "1"}}}
        got: list[Object] = []
        patching = threading.Thread(target=lambda: got.append(api.patch(path, body)))
        patching.start()
        assert arrived.wait(30)
        api.patch(path, {"data": {"theirs": "1"}})
        go_on.set()
        patching.join()
        assert (got[0]["data"], got[0]["metadata"]["labels"]) == ({"theirs": "1"}, {"slow": "1"})
        assert [request["object"].get("data") for request in hooked.requests("slow")] == [None, {"theirs": "1"}]


@case("a pod that is deleted while its Binding is reviewed is not bound")
def deleted_meanwhile(api: Api) -> None:
    with hooks(api) as hooked, slow(hooked) as (arrived, go_on):
        api.create(f"{hooked.space}/pods", pod("a"))
        hooked.configure(hooked.webhook("slow", rules=[BINDINGS]))
        with meanwhile(hooked, "POST", f"{hooked.space}/pods/a/binding", binding("a", "contract-node")) as got:
            assert arrived.wait(30)
            assert api.ask("DELETE", f"{hooked.space}/pods/a").code == 200
            go_on.set()
        assert told(got[0], 404) == 'pods "a" not found'


@case("a configuration gets its defaults, and is refused with the field that is wrong")
def configured(api: Api) -> None:
    with hooks(api) as hooked:
        path = hooked.configure()
        [webhook] = api.get(path)["webhooks"]
        assert (webhook["failurePolicy"], webhook["matchPolicy"], webhook["rules"][0]["scope"]) == (
            "Fail",
            "Equivalent",
            "*",
        )
        wrong: dict[str, Object] = {
            "webhooks[0].name": {"name": "short"},
            "webhooks[0].sideEffects": {"sideEffects": "Some"},
            "webhooks[0].admissionReviewVersions": {"admissionReviewVersions": ["v2"]},
            "webhooks[0].timeoutSeconds": {"timeoutSeconds": 31},
            "webhooks[0].failurePolicy": {"failurePolicy": "Perhaps"},
            "webhooks[0].clientConfig": {"clientConfig": {}},
            "webhooks[0].clientConfig.url": {"clientConfig": {"url": "http://127.0.0.1:1/x"}},
            "webhooks[0].rules[0].operations[0]": {"rules": [rule("pods", operations=("READ",))]},
            "webhooks[0].matchConditions[0].expression": {"matchConditions": [{"name": "m", "expression": "&&"}]},
        }
        for field, changes in wrong.items():
            body = {"metadata": {"name": hooked.namespace}, "webhooks": [{**hooked.webhook("a"), **changes}]}
            reply = api.ask("POST", f"{CONFIGURATIONS}/validatingwebhookconfigurations", body)
            assert reply.code == 422, (field, reply)
            assert field in [cause["field"] for cause in reply.body["details"]["causes"]], (field, reply)
