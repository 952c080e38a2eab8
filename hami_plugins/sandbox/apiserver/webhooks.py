"""Webhook configurations: which webhooks a request reaches, and what makes a configuration no good.

Rules are compared with the request as it came: a webhook with ``matchPolicy: Equivalent`` is not told of the same
object by another version's name. ``reinvocationPolicy`` is stored and never acted upon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from hami_plugins.sandbox.apiserver.answers import StatusCause
from hami_plugins.sandbox.apiserver.conditions import MatchCondition, NoConditionError, UndecidedError, compiled
from hami_plugins.sandbox.apiserver.kinds import NAMESPACES, ResourceKind
from hami_plugins.sandbox.apiserver.selectors import written
from hami_plugins.sandbox.apiserver.store import ApiStore, Key
from hami_plugins.wire.fields import Json

Stage = Literal["mutating", "validating"]

GROUP: Final = "admissionregistration.k8s.io"
STORAGES: Final[Mapping[tuple[str, str], Stage]] = {
    (GROUP, "mutatingwebhookconfigurations"): "mutating",
    (GROUP, "validatingwebhookconfigurations"): "validating",
}
"""Where configurations are kept; their own writes reach no webhook."""

OPERATIONS: Final = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAttributes:
    """A change that is asked for. ``group`` to ``subresource`` are those of the path, ``kind`` is the object's.

    ``namespace`` is empty for objects of the cluster; ``old`` is ``None`` for a new object, ``obj`` for a deletion.
    Both objects are as clients see them.
    """

    operation: str
    kind: ResourceKind
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry: bool
    user: str
    obj: Json | None
    old: Json | None


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration, as it is stored."""

    raw: Json

    @property
    def name(self) -> str:
        """Its name in error texts."""
        return str(self.raw["name"])

    @property
    def ignores(self) -> bool:
        """Whether a call that fails lets the request pass."""
        return bool(self.raw.get("failurePolicy", "Fail") == "Ignore")

    @property
    def seconds(self) -> int:
        """How long a call may take."""
        return int(self.raw.get("timeoutSeconds") or 10)

    def wants(self, change: AdmissionAttributes, namespace_labels: Mapping[str, str] | None) -> bool:
        """Whether rules and selectors choose the request; ``None`` stands for an object outside of namespaces."""
        if not any(_rule_fits(rule, change) for rule in self.raw.get("rules") or []):
            return False
        if namespace_labels is not None:
            selector = written(self.raw.get("namespaceSelector"))
            if not selector.matches({"metadata": {"labels": namespace_labels}}):
                return False
        selector = written(self.raw.get("objectSelector"))
        return any(selector.matches(_labelled(obj)) for obj in (change.obj, change.old) if obj is not None)

    def conditions_hold(self, change: AdmissionAttributes, request: Json) -> bool:
        """Raises ``UndecidedError`` where one holds neither way and none is false."""
        known = {"object": change.obj, "oldObject": change.old, "request": request}
        undecided: UndecidedError | None = None
        for each in _conditions(self.raw):
            try:
                if not each.holds(known):
                    return False
            except UndecidedError as error:
                undecided = undecided or error
        if undecided is not None:
            raise undecided
        return True


def configured(store: ApiStore, stage: Stage) -> list[Webhook]:
    """All webhooks of a stage: configurations by name, in each the order of the list."""
    storage = next(place for place, its in STORAGES.items() if its == stage)
    collection = store.collection(storage)
    return [Webhook(raw) for key in collection.order for raw in collection.objects[key].raw.get("webhooks") or []]


def namespace_labels(store: ApiStore, change: AdmissionAttributes) -> Mapping[str, str] | None:
    """What namespace selectors look at; ``None`` where they do not matter."""
    if change.kind.storage == NAMESPACES.storage:
        labels: Mapping[str, str] = _labelled(change.obj or change.old or {})["metadata"]["labels"]
        return labels
    if not change.namespace:
        return None
    found = store.get(NAMESPACES, Key("", change.namespace))
    return {} if found is None else found.raw["metadata"].get("labels") or {}


def with_webhook_defaults(configuration: Json) -> dict[str, Any]:
    """A configuration with what it leaves out."""
    webhooks = [
        {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
            **each,
            "rules": [{"scope": "*", **rule} for rule in each.get("rules") or []],
        }
        for each in configuration.get("webhooks") or []
        if isinstance(each, Mapping)
    ]
    return {**configuration, **({"webhooks": webhooks} if webhooks else {})}


def violations(configuration: Json) -> Iterator[StatusCause]:
    """What is wrong with a configuration, in the server's words as far as they are short."""
    seen: set[str] = set()
    for at, webhook in enumerate(configuration.get("webhooks") or []):
        path = f"webhooks[{at}]"
        name = str(webhook.get("name") or "")
        if not name:
            yield StatusCause(f"{path}.name", "FieldValueRequired", "Required value")
        elif not _NAME.fullmatch(name):
            yield _invalid(f"{path}.name", name, "should be a domain with at least three segments separated by dots")
        elif name in seen:
            yield StatusCause(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"')
        seen.add(name)
        yield from _webhook(path, webhook)


def _webhook(path: str, webhook: Json) -> Iterator[StatusCause]:
    effects = webhook.get("sideEffects")
    if effects not in ("None", "NoneOnDryRun"):
        text = 'must specify one of "None", "NoneOnDryRun"'
        if effects is None:
            yield StatusCause(f"{path}.sideEffects", "FieldValueRequired", f"Required value: {text}")
        else:
            yield _unsupported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    versions = webhook.get("admissionReviewVersions") or []
    if not versions:
        text = "Required value: must specify one of v1, v1beta1"
        yield StatusCause(f"{path}.admissionReviewVersions", "FieldValueRequired", text)
    elif "v1" not in versions:
        yield _invalid(f"{path}.admissionReviewVersions", versions, "must include at least one of v1, v1beta1")
    if webhook.get("failurePolicy", "Fail") not in ("Fail", "Ignore"):
        yield _unsupported(f"{path}.failurePolicy", webhook["failurePolicy"], ("Fail", "Ignore"))
    if not 1 <= int(webhook.get("timeoutSeconds", 10)) <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield _invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], text)
    for at, rule in enumerate(webhook.get("rules") or []):
        yield from _rule(f"{path}.rules[{at}]", rule)
    yield from _client(f"{path}.clientConfig", webhook.get("clientConfig") or {})
    for at, condition in enumerate(webhook.get("matchConditions") or []):
        try:
            compiled(str(condition.get("expression") or ""))
        except NoConditionError as error:
            yield _invalid(f"{path}.matchConditions[{at}].expression", condition.get("expression"), str(error))


def _rule(path: str, rule: Json) -> Iterator[StatusCause]:
    for member in ("apiGroups", "apiVersions", "operations", "resources"):
        if not rule.get(member):
            yield StatusCause(f"{path}.{member}", "FieldValueRequired", "Required value")
    for at, operation in enumerate(rule.get("operations") or []):
        if operation not in OPERATIONS:
            yield _unsupported(f"{path}.operations[{at}]", operation, OPERATIONS)
    if rule.get("scope", "*") not in ("*", "Cluster", "Namespaced"):
        yield _unsupported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced"))


def _client(path: str, client: Json) -> Iterator[StatusCause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield StatusCause(path, "FieldValueRequired", "Required value: exactly one of url or service is required")
    elif url is not None:
        parts = urlsplit(str(url))
        form = "; desired format: https://host[/path]"
        if parts.scheme != "https":
            yield _invalid(f"{path}.url", parts.scheme, f"'https' is the only allowed URL scheme{form}")
        elif not parts.hostname:
            yield _invalid(f"{path}.url", "", f"host must be specified{form}")
        if parts.query or parts.fragment or parts.username:
            text = f"user information, fragments and query parameters are not permitted in the URL{form}"
            yield _invalid(f"{path}.url", url, text)


def _invalid(path: str, value: Any, why: str) -> StatusCause:
    return StatusCause(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def _unsupported(path: str, value: Any, known: Sequence[str]) -> StatusCause:
    shown = ", ".join(f'"{each}"' for each in known)
    return StatusCause(path, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {shown}')


def _conditions(webhook: Json) -> Iterator[MatchCondition]:
    return (compiled(str(each["expression"])) for each in webhook.get("matchConditions") or [])


def _labelled(obj: Json) -> dict[str, Any]:
    return {"metadata": {"labels": (obj.get("metadata") or {}).get("labels") or {}}}


def _rule_fits(rule: Json, change: AdmissionAttributes) -> bool:
    scope = rule.get("scope", "*")
    inside = bool(change.namespace) and change.kind.storage != NAMESPACES.storage
    return (
        _lists(rule, "operations", change.operation)
        and _lists(rule, "apiGroups", change.group)
        and _lists(rule, "apiVersions", change.version)
        and any(_resource_fits(each, change) for each in rule.get("resources") or [])
        and scope in ("*", "Namespaced" if inside else "Cluster")
    )


def _lists(rule: Json, member: str, value: str) -> bool:
    return any(each in ("*", value) for each in rule.get(member) or [])


def _resource_fits(pattern: str, change: AdmissionAttributes) -> bool:
    """``pods`` is the resource alone, ``pods/*`` all of it, ``*/*`` everything, ``*`` all resources alone."""
    resource, slash, subresource = pattern.partition("/")
    if resource not in ("*", change.resource):
        return False
    if not slash:
        return not change.subresource
    return subresource in ("*", change.subresource)
