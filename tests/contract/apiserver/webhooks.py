"""Admission webhooks: who is asked what, and what the answers do."""

from __future__ import annotations

import socket

from starlette.responses import Response

from tests.contract.apiserver.api import Api, Object
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.hooks import (
    CONFIGURATIONS,
    a_map,
    allow,
    annotate,
    hooks,
    make,
    notes,
    patch,
    refuse,
    rule,
    slow,
    told,
)
from tests.contract.apiserver.pods import pod


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
