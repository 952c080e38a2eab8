"""Admission webhooks on Bindings, the conditions that choose them, and what others write while a webhook is asked."""

from __future__ import annotations

import threading

from tests.contract.apiserver.api import Api, Object
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.hooks import allow, annotate, hooks, make, meanwhile, refuse, rule, slow, told
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.pods import binding, pod
from tests.waiting import PATIENCE

MARKED = "has(object.metadata.annotations) && 'test.example/mark' in object.metadata.annotations"
BINDINGS = rule("pods/binding", "bindings", operations=("CREATE",))


@case("a webhook on bindings is asked about the Binding, and what it adds reaches the pod")
def bound(api: Api) -> None:
    with hooks(api) as hooked:
        hooked.on("bind", annotate("test.example/allocation", "card-1"))
        hooked.configure(hooked.webhook("bind", rules=[BINDINGS]))
        api.create(f"{hooked.space}/pods", pod("a", metadata={"annotations": {"test.example/allocation": "stale"}}))
        wanted = binding("a", "contract-node", annotations={"test.example/allocation": "older", "y": "z"})
        assert api.ask("POST", f"{hooked.space}/pods/a/binding", wanted).code == 201
        found = api.get(f"{hooked.space}/pods/a")
        assert found["spec"]["nodeName"] == "contract-node"
        assert found["metadata"]["annotations"] == {"test.example/allocation": "card-1", "y": "z"}
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
            assert arrived.wait(PATIENCE)
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
        assert arrived.wait(PATIENCE)
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
            assert arrived.wait(PATIENCE)
            assert api.ask("DELETE", f"{hooked.space}/pods/a").code == 200
            go_on.set()
        assert told(got[0], 404) == 'pods "a" not found'
