"""Requests that are refused, and how."""

from __future__ import annotations

from tests.contract.apiserver.api import MERGE, Api, Reply
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.objects import named


def refused(reply: Reply, code: int, reason: str) -> str:
    """The message of a Status that says so."""
    assert reply.code == code, reply
    body = reply.body
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure"), reply
    assert (body["code"], body["reason"]) == (code, reason), reply
    message: str = body["message"]
    return message


def first_cause(reply: Reply) -> tuple[str, str]:
    cause = reply.body["details"]["causes"][0]
    return cause["field"], cause["reason"]


@case("a name that is taken is 409 AlreadyExists")
def taken_name(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("POST", f"{space}/configmaps", named("a"))
    assert refused(reply, 409, "AlreadyExists") == 'configmaps "a" already exists'
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}


@case("an object that is not there is 404 NotFound")
def absent(api: Api) -> None:
    space = api.workspace()
    reply = api.ask("GET", f"{space}/pods/a")
    assert refused(reply, 404, "NotFound") == 'pods "a" not found'
    assert reply.body["details"] == {"name": "a", "kind": "pods"}
    name = space.rsplit("/", maxsplit=1)[-1]
    reply = api.ask("GET", f"/apis/apps/v1/namespaces/{name}/deployments/a")
    assert refused(reply, 404, "NotFound") == 'deployments.apps "a" not found'
    assert reply.body["details"] == {"name": "a", "group": "apps", "kind": "deployments"}


@case("a patch and a deletion of what is not there are 404")
def absent_for_writers(api: Api) -> None:
    path = f"{api.workspace()}/configmaps/a"
    refused(api.ask("PATCH", path, {"data": {}}, media=MERGE), 404, "NotFound")
    refused(api.ask("DELETE", path), 404, "NotFound")


@case("an object for a namespace that is not there is 404 for the namespace")
def absent_namespace(api: Api) -> None:
    reply = api.ask("POST", "/api/v1/namespaces/contract-nowhere/configmaps", named("a"))
    assert refused(reply, 404, "NotFound") == 'namespaces "contract-nowhere" not found'
    assert api.get("/api/v1/namespaces/contract-nowhere/configmaps")["items"] == []


@case("a bad name is 422 with the field among the causes")
def bad_name(api: Api) -> None:
    space = api.workspace()
    reply = api.ask("POST", f"{space}/configmaps", named("Upper_Case"))
    message = refused(reply, 422, "Invalid")
    assert message.startswith('ConfigMap "Upper_Case" is invalid: metadata.name: Invalid value: "Upper_Case": ')
    assert "a lowercase RFC 1123 subdomain must consist of" in message
    assert reply.body["details"]["kind"] == "ConfigMap"
    assert first_cause(reply) == ("metadata.name", "FieldValueInvalid")


@case("no name at all is 422")
def no_name(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", {"metadata": {}})
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("metadata.name", "FieldValueRequired")


@case("a label value with a space is 422")
def bad_label(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", named("a", labels={"x": "no spaces"}))
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("metadata.labels", "FieldValueInvalid")


@case("a finalizer of Kubernetes' own kinds has a domain")
def bad_finalizer(api: Api) -> None:
    space = api.workspace()
    for finalizer, field in (("plain", "metadata.finalizers[0]"), (None, "metadata.finalizers")):
        reply = api.ask("POST", f"{space}/configmaps", named("a", finalizers=[finalizer]))
        refused(reply, 422, "Invalid")
        assert first_cause(reply) == (field, "FieldValueInvalid")
    refused(api.ask("POST", f"{space}/configmaps", named("a", finalizers=[3])), 400, "BadRequest")


@case("a bad annotation key is 422")
def bad_annotation_key(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", named("a", annotations={"no spaces": "x"}))
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("metadata.annotations", "FieldValueInvalid")


@case("annotations of more than 256 KiB are 422")
def large_annotations(api: Api) -> None:
    space = api.workspace()
    reply = api.ask("POST", f"{space}/configmaps", named("a", annotations={"x": "y" * (256 * 1024)}))
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("metadata.annotations", "FieldValueTooLong")
    fits = named("a", annotations={"x": "y" * (256 * 1024 - 1)})
    assert api.ask("POST", f"{space}/configmaps", fits).code == 201


@case("an annotation that is no text is 400")
def typed_annotation(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", named("a", annotations={"x": 1}))
    message = refused(reply, 400, "BadRequest")
    assert 'ConfigMap in version "v1" cannot be handled as a ConfigMap' in message
    assert "cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations of type string" in message


@case("a patch that makes an annotation no text is 422")
def patched_type(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("PATCH", f"{space}/configmaps/a", {"metadata": {"annotations": {"x": True}}}, media=MERGE)
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("patch", "FieldValueInvalid")


@case("a body that is no JSON is 400")
def bad_json(api: Api) -> None:
    refused(api.ask("POST", f"{api.workspace()}/configmaps", b'{"metadata":'), 400, "BadRequest")


@case("a patch that is no JSON is 400")
def bad_json_patch(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    refused(api.ask("PATCH", f"{space}/configmaps/a", b"{", media=MERGE), 400, "BadRequest")


@case("an object of another kind is 400")
def other_kind(api: Api) -> None:
    body = {"kind": "Secret", "apiVersion": "v1", **named("a")}
    refused(api.ask("POST", f"{api.workspace()}/configmaps", body), 400, "BadRequest")


@case("an object of another namespace is 400")
def other_namespace(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", named("a", namespace="default"))
    assert refused(reply, 400, "BadRequest") == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


@case("a PUT of another name is 400")
def other_name(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("PUT", f"{space}/configmaps/a", named("b"))
    assert refused(reply, 400, "BadRequest") == ("the name of the object (b) does not match the name on the URL (a)")


@case("a patch of the name is 400")
def patched_name(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    refused(api.ask("PATCH", f"{space}/configmaps/a", {"metadata": {"name": "b"}}, media=MERGE), 400, "BadRequest")


@case("a patch of the identity or the kind is 422")
def patched_identity(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    other = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}
    reply = api.ask("PATCH", f"{space}/configmaps/a", other, media=MERGE)
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("metadata.uid", "FieldValueInvalid")
    refused(api.ask("PATCH", f"{space}/configmaps/a", {"apiVersion": "v2"}, media=MERGE), 422, "Invalid")


@case("a media type that nobody knows is 415")
def unknown_media(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", named("a"), media="text/csv")
    refused(reply, 415, "UnsupportedMediaType")


@case("a patch of plain JSON is 415")
def plain_patch(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("PATCH", f"{space}/configmaps/a", {}, media="application/json")
    assert refused(reply, 415, "UnsupportedMediaType") == "415: Unsupported Media Type"


@case("a body above 3 MiB is 413")
def large_body(api: Api) -> None:
    body = {**named("a"), "data": {"x": "y" * (3 * 1024 * 1024)}}
    message = refused(api.ask("POST", f"{api.workspace()}/configmaps", body), 413, "RequestEntityTooLarge")
    assert message == "Request entity too large: limit is 3145728"


@case("a resource that is not in a known version is a 404 Status")
def unknown_resource(api: Api) -> None:
    for path in ("/api/v1/nonsenses", "/api/v2/pods", "/api/v1/namespaces/default/nodes", "/api/v1/pods/a"):
        reply = api.ask("GET", path)
        assert refused(reply, 404, "NotFound") == "the server could not find the requested resource"
        assert reply.body["details"] == {}


@case("a group that nobody serves is a 404 of plain text")
def unknown_group(api: Api) -> None:
    reply = api.ask("GET", "/apis/nobody.example/v1/things")
    assert (reply.code, reply.body) == (404, "404 page not found\n")


@case("a method that a path does not take is 405")
def unknown_method(api: Api) -> None:
    refused(api.ask("PUT", f"{api.workspace()}/configmaps", named("a")), 405, "MethodNotAllowed")


@case("a new object with a version is refused")
def version_of_new(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/configmaps", named("a", resourceVersion="1"))
    assert (reply.code, reply.body["message"]) == (500, "resourceVersion should not be set on objects to be created")
    assert "reason" not in reply.body


@case("an unknown field selector is 400")
def unknown_field(api: Api) -> None:
    space = api.workspace()
    reply = api.ask("GET", f"{space}/pods", fieldSelector="spec.nonsense=1")
    assert refused(reply, 400, "BadRequest") == "field label not supported: spec.nonsense"
    reply = api.ask("GET", f"{space}/configmaps", fieldSelector="spec.nonsense=1")
    assert refused(reply, 400, "BadRequest") == (
        '"spec.nonsense" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


@case("a label selector that cannot be read is 400")
def unreadable_selector(api: Api) -> None:
    space = api.workspace()
    for selector in ("a in (x", "a=b=c", "a b", "!"):
        refused(api.ask("GET", f"{space}/pods", labelSelector=selector), 400, "BadRequest")
