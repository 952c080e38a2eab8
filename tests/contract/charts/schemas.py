"""``python -m tests.contract.charts.schemas`` writes the schemas of the charts' values.

The settings of a process are those of its ``Settings``; the schemas are generated from them, without the parts that the
chart sets (mounts, ports, names). A test holds the files to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel

from hami_plugins.allocator.settings import AllocatorSettings
from koordinator_adapter.server.settings import AdapterSettings
from neuron_topology.core.agent.settings import NeuronAgentSettings
from volcano_vgpu.agent import config
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.settings import AgentSettings

CHARTS: Final = Path("charts/hami-plugins/charts")
FILE: Final = "values.schema.json"
LIBRARY_CHART: Final = "hami-plugins-library"
DRAFT: Final = "http://json-schema.org/draft-07/schema#"

Schema = dict[str, Any]

OF_THE_AGENT: Final = (
    "version", "node", "kubeletDirectory", "podResourcesSocket", "librarySource", "librarySha256", "listen",
    "daemonSet", "resources", "knownMigGeometries",
)  # fmt: skip
"""What the chart says itself, or takes from ``deviceConfig``."""

OF_THE_ALLOCATOR: Final = ("version", "vendors", "service", "listen", "certificate", "webhooks")
OF_THE_NEURON_AGENT: Final = ("node", "kubeletDirectory", "machineFile", "listen")
OF_KOORDINATOR: Final = ("version", "service", "listen", "certificate", "webhooks", "node")
OF_THE_PART: Final = ("librarySource", "librarySha256")
ELSEWHERE_IN_THE_ALLOCATOR: Final = {
    "AllocatorLease": "name",
    "KubeSchedulerSettings": "name",
    "VolcanoAllocatorSettings": "mode",
}
"""Members of parts of its settings that the chart says itself."""


def hami_settings() -> tuple[str, ...]:
    """Words of HAMi's chart, as the library knows them. Schemas let them pass: a template refuses them all at once."""
    text = (CHARTS / LIBRARY_CHART / "templates" / "_hami.tpl").read_text()
    tables = [
        part.partition("{{- end -}}")[0] for part in re.split(r'define "library.hami(?:Values|Words)" -}}\n', text)[1:]
    ]
    return tuple(sorted({path.partition(".")[0] for table in tables for path in yaml.safe_load(table)}))


ELSEWHERE: Final[Schema] = {"description": "Called otherwise here; the error says how."}
TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1}
FLAG: Final[Schema] = {"type": "boolean"}
PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
PART_OF_NAMES: Final[Schema] = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"}
NAME_OF_OBJECT: Final[Schema] = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
CIDRS: Final[Schema] = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}}
OBJECT: Final[Schema] = {"type": "object"}
OBJECTS: Final[Schema] = {"type": "array", "items": OBJECT}
NAMES: Final[Schema] = {"type": "array", "items": NAME}
PATH: Final[Schema] = {"type": "string", "pattern": "^/"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}


def some_of(**properties: Schema) -> Schema:
    """An object with some of these members and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def members(**properties: Schema) -> Schema:
    """An object with these members and no others; null, by which Helm removes one, will not do everywhere."""
    required = [name for name, held in properties.items() if _has_a_value(held) and name not in _REMOVED_BY_PARENTS]
    return {**some_of(**properties), **({"required": required} if required else {})}


_REMOVED_BY_PARENTS: Final = frozenset({"enabled"})
"""A chart that turns a dependency on and off by tags removes it."""


def _has_a_value(held: Schema) -> bool:
    """Whether an empty text does not do."""
    if held.get("type") == "string":
        texts = held.get("enum", [""])
        return (
            "" not in texts
            if "enum" in held
            else bool(held.get("minLength") or not re.match(held.get("pattern", ""), ""))
        )
    return held.get("type") in {"integer", "boolean"}


def one_of(*values: str) -> Schema:
    """One of a few words."""
    return {"type": "string", "enum": list(values)}


PULL_SECRETS: Final[Schema] = {"type": "array", "items": {"anyOf": [members(name=NAME), NAME]}}
"""Other charts, with which ``global`` is shared, take names alone."""

FAMILIES: Final[Schema] = {"type": "array", "items": one_of("IPv4", "IPv6"), "maxItems": 2}
SERVICE: Final = members(
    type=one_of("ClusterIP", "NodePort", "LoadBalancer"),
    labels=TEXTS,
    annotations=TEXTS,
    ipFamilyPolicy=one_of("", "SingleStack", "PreferDualStack", "RequireDualStack"),
    ipFamilies=FAMILIES,
)
AMOUNT: Final[Schema] = {"anyOf": [COUNT, {"type": "string", "pattern": "^([0-9]+%)?$"}]}
BUDGET: Final = members(
    enabled=FLAG,
    minAvailable=AMOUNT,
    maxUnavailable=AMOUNT,
    unhealthyPodEvictionPolicy=one_of("AlwaysAllow", "IfHealthyBudget"),
)
_ID: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
_MAYBE: Final[Schema] = {"type": ["boolean", "null"]}
_PART: Final[Schema] = {"type": ["object", "null"]}
_WORD: Final[Schema] = {"type": ["string", "null"]}
_OF_BOTH: Final[dict[str, Schema]] = {
    "runAsUser": _ID,
    "runAsGroup": _ID,
    "runAsNonRoot": _MAYBE,
    "seLinuxOptions": _PART,
    "seccompProfile": _PART,
    "appArmorProfile": _PART,
}
POD_SECURITY: Final = some_of(
    **_OF_BOTH,
    fsGroup=_ID,
    fsGroupChangePolicy=_WORD,
    supplementalGroups={"type": "array", "items": COUNT},
    supplementalGroupsPolicy=_WORD,
    seLinuxChangePolicy=_WORD,
    sysctls=OBJECTS,
)
CONTAINER_SECURITY: Final = some_of(
    **_OF_BOTH,
    allowPrivilegeEscalation=_MAYBE,
    capabilities=_PART,
    privileged=_MAYBE,
    procMount=_WORD,
    readOnlyRootFilesystem=_MAYBE,
)
PROBE: Final = some_of(
    initialDelaySeconds=COUNT,
    periodSeconds={"type": "integer", "minimum": 1},
    timeoutSeconds={"type": "integer", "minimum": 1},
    successThreshold={"type": "integer", "minimum": 1},
    failureThreshold={"type": "integer", "minimum": 1},
    terminationGracePeriodSeconds={"type": "integer", "minimum": 1},
)
SELECTOR: Final = some_of(matchLabels=TEXTS, matchExpressions=OBJECTS)

IMAGE: Final = members(
    registry=TEXT,
    repository=NAME,
    tag=TEXT,
    digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    pullPolicy=one_of("Always", "IfNotPresent", "Never"),
)
OF_THE_LIBRARY: Final[Schema] = {**members(**{"global": OBJECT}), "description": "Helm shares global with the library."}
TAGS: Final[Schema] = {"type": "object", "additionalProperties": FLAG, "description": "Those of dependencies."}
ACCOUNT: Final = members(create=FLAG, name=NAME_OF_OBJECT, annotations=TEXTS)
SHARED: Final[dict[str, Schema]] = {
    "enabled": FLAG,
    "global": {
        "type": "object",
        "properties": {
            "imageRegistry": TEXT,
            "imagePullSecrets": PULL_SECRETS,
            "labels": TEXTS,
            "annotations": TEXTS,
            "openshift": FLAG,
        },
    },
    "nameOverride": PART_OF_NAMES,
    "fullnameOverride": PART_OF_NAMES,
    "namespaceOverride": PART_OF_NAMES,
    "commonLabels": TEXTS,
    "commonAnnotations": TEXTS,
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
    "tags": TAGS,
    "imagePullSecrets": PULL_SECRETS,
    LIBRARY_CHART: OF_THE_LIBRARY,
}
LIBRARY: Final = members(
    image=TEXT,
    path=PATH,
    hostPath={"type": "string", "pattern": "^(/.*)?$"},
    sha256={"type": "string", "pattern": "^([0-9a-f]{64})?$"},
)
NETWORK_POLICY: Final = members(enabled=FLAG, apiServers=CIDRS, schedulers=OBJECTS, scrapers=OBJECTS)
UNINSTALL: Final = members(clean=FLAG, timeoutSeconds={"type": "integer", "minimum": 1}, serviceAccount=ACCOUNT)
VERIFY: Final = members(url={"type": "string", "pattern": "^(http://.+)?$"})
MONITOR: Final = members(
    enabled=FLAG,
    interval={"type": "string", "pattern": "^[0-9]+(ms|s|m)$"},
    scrapeTimeout={"type": "string", "pattern": "^([0-9]+(ms|s|m))?$"},
    labels=TEXTS,
    relabelings=OBJECTS,
    metricRelabelings=OBJECTS,
)
MONITORING: Final = members(
    podMonitor=MONITOR,
    serviceMonitor=MONITOR,
    prometheusRule=members(enabled=FLAG, labels=TEXTS, runbooks={"type": "string", "pattern": r"^(https?://\S+)?$"}),
    dashboard=members(enabled=FLAG, labels=TEXTS),
)
ALLOCATION_POLICY: Final = members(enabled=FLAG, users=NAMES, groups=NAMES)
PODS: Final[dict[str, Schema]] = {
    "image": IMAGE,
    "hostNetwork": FLAG,
    "listenHost": NAME,
    "nodeSelector": TEXTS,
    "affinity": OBJECT,
    "tolerations": OBJECTS,
    "priorityClassName": NAME_OF_OBJECT,
    "resources": members(requests=OBJECT, limits=OBJECT, claims=OBJECTS),
    "podLabels": TEXTS,
    "podAnnotations": TEXTS,
    "podSecurityContext": POD_SECURITY,
    "securityContext": CONTAINER_SECURITY,
    "dnsPolicy": one_of("", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "hostAliases": OBJECTS,
    "extraArgs": NAMES,
    "extraEnv": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    "envFrom": OBJECTS,
    "extraVolumes": OBJECTS,
    "extraVolumeMounts": OBJECTS,
    "extraContainers": OBJECTS,
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
}
DEPLOYMENT: Final[dict[str, Schema]] = {
    "replicas": {"type": "integer", "minimum": 1},
    "strategy": OBJECT,
    "revisionHistoryLimit": COUNT,
    "deploymentAnnotations": TEXTS,
    "topologySpreadConstraints": OBJECTS,
    "podDisruptionBudget": BUDGET,
    "automountServiceAccountToken": FLAG,
}
DAEMON_SET: Final[dict[str, Schema]] = {
    "updateStrategy": OBJECT,
    "revisionHistoryLimit": COUNT,
    "daemonSetAnnotations": TEXTS,
}


def settings(model: type[BaseModel], without: Sequence[str]) -> tuple[Schema, Mapping[str, Schema]]:
    """The schema of what an operator sets about a process, and the definitions that it refers to."""
    whole = model.model_json_schema(by_alias=True, mode="validation")
    definitions = whole.pop("$defs")
    whole["properties"] = {name: held for name, held in whole["properties"].items() if name not in without}
    whole.pop("required", None)
    return _plain(whole), {name: _plain(held) for name, held in definitions.items()}


def volcano_vgpu() -> Schema:
    """The values of ``volcano-vgpu``."""
    agent, of_agent = settings(AgentSettings, OF_THE_AGENT)
    document = members(
        **SHARED,
        deviceConfig=_device_config(),
        nodeConfig=_node_config(),
        agent=_agent(agent),
        networkPolicy=members(enabled=FLAG, scrapers=OBJECTS),
        nodePolicy=members(enabled=FLAG),
        allocationPolicy=ALLOCATION_POLICY,
        rbac=members(create=FLAG, volcano=FLAG),
        serviceAccounts=members(agent=ACCOUNT),
        uninstall=UNINSTALL,
        monitoring=MONITORING,
        **_hami_values(SHARED),
        **_moved("allocator", "verify"),
    )
    needed = _used(of_agent, document)
    return {"$schema": DRAFT, "title": "Values of the chart volcano-vgpu", **document, "definitions": needed}


def umbrella() -> Schema:
    """The values of ``hami-plugins``; what stands under a product is that chart's own to look at."""
    document = members(
        **{name: SHARED[name] for name in ("enabled", "global", "tags", LIBRARY_CHART)},
        **dict.fromkeys(SCHEMAS, OBJECT),
        **_hami_values({}),
        **_moved("neuron-topology"),
    )
    return {"$schema": DRAFT, "title": "Values of the chart hami-plugins", **document}


def _hami_values(own: Mapping[str, Schema]) -> dict[str, Schema]:
    return _moved(*(word for word in hami_settings() if word not in own))


def _moved(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, ELSEWHERE)


def _some(**properties: Schema) -> Schema:
    """An object with these members, and others that are ignored here."""
    return {"type": "object", "properties": properties}


def _device_config() -> Schema:
    """Volcano's device configuration with all vendors' parts; what begins like the name of a resource has to be one."""
    whole, _ = settings(AgentSettings, ())
    shared = {name: whole["properties"][name] for name in config.SHARED}
    cut = _some(name=NAME, memory={"type": "integer"}, count=COUNT)
    group = {**_some(group=NAME, geometries={"type": "array", "items": cut}), "required": ["group", "geometries"]}
    shared |= dict.fromkeys(config.DEFAULTS, COUNT)
    geometry = _some(models=NAMES, allowedGeometries={"type": "array", "items": group})
    shared["knownMigGeometries"] = {"type": "array", "items": geometry}
    names = dict.fromkeys(config.NAMES, TEXT)
    known = {"anyOf": [{"enum": [*names]}, {"not": {"pattern": "^resource"}}]}
    nvidia = {**_some(**names, **shared), "propertyNames": known}
    return {"type": "object", "properties": {"nvidia": nvidia}, "additionalProperties": OBJECT}


def _node_config() -> Schema:
    """The existing plugin's node file as it is; numbers that are not positive count for nothing."""
    numbers = {name: {"type": "number", "minimum": 0} for name in config.NODE_NUMBERS}
    numbers["devicesplitcount"] = COUNT
    modes = [str(each.value) for each in SharingMode]
    unwanted = _some(uuid=NAMES, index={"type": "array", "items": COUNT})
    entry = _some(name=NAME, operatingmode=one_of("", *modes), filterdevices=unwanted, **numbers)
    return members(nodeconfig={"type": "array", "items": {**entry, "required": ["name"]}})


def allocator() -> Schema:
    """The values of ``allocator``."""
    found, held = settings(AllocatorSettings, OF_THE_ALLOCATOR)
    agent, of_agent = settings(NeuronAgentSettings, OF_THE_NEURON_AGENT)
    definitions = {**of_agent, **held}
    for part, name in ELSEWHERE_IN_THE_ALLOCATOR.items():
        definitions[part]["properties"].pop(name)
    server = _server(found)
    server["properties"]["webhooks"]["properties"]["jobs"] = FLAG
    document = members(**SHARED, **server["properties"], serviceAccount=ACCOUNT)
    document["properties"] |= _hami_values(SHARED)
    document["properties"] |= {
        "mode": one_of("extender", "webhook", "policy"),
        "policyVersion": one_of("v1", "v1beta1", "v1alpha1"),
        "vendors": {**NAMES, "minItems": 1, "uniqueItems": True},
        "moreVendors": {"type": "array", "items": _vendor()},
        "schedulerName": NAME,
        "kubeScheduler": _kube_scheduler(),
        "neuronAgent": _neuron_agent(agent),
        "journalVolume": OBJECT,
        "networkPolicy": NETWORK_POLICY,
        "nodePolicy": members(enabled=FLAG),
        "allocationPolicy": ALLOCATION_POLICY,
        "rbac": members(create=FLAG),
        "uninstall": UNINSTALL,
        "verify": VERIFY,
        "monitoring": MONITORING,
    }
    needed = _used(definitions, document)
    return {"$schema": DRAFT, "title": "Values of the chart allocator", **document, "definitions": needed}


def _neuron_agent(found: Schema) -> Schema:
    """The agent of nodes with Neuron devices."""
    return members(
        **PODS,
        **DAEMON_SET,
        enabled=FLAG,
        settings=found,
        privileged=FLAG,
        port=PORT,
        toolsPath=PATH,
        kubeletRoot=PATH,
        serviceAccount=ACCOUNT,
        automountServiceAccountToken=FLAG,
    )


def koordinator_adapter() -> Schema:
    """The values of ``koordinator-adapter``."""
    found, held = settings(AdapterSettings, OF_KOORDINATOR)
    definitions = dict(held)
    found["properties"]["lease"] = {"$ref": "#/definitions/AdapterLease"}
    definitions["AdapterLease"]["properties"].pop("name")
    part = definitions.pop("NodeSettings")
    for name in OF_THE_PART:
        part["properties"].pop(name)
    server = _server(found)
    hooks = server["properties"]["webhooks"]
    hooks["properties"].pop("markedOnly")
    hooks["required"].remove("markedOnly")
    document = members(**SHARED, **server["properties"])
    document["properties"] |= _hami_values(SHARED)
    node = {name: held for name, held in PODS.items() if name != "image"} | {"listenHost": TEXT}
    document["properties"] |= {
        "node": members(**node, **DAEMON_SET, enabled=FLAG, settings=part, library=LIBRARY, port=PORT),
        "networkPolicy": members(enabled=FLAG, apiServers=CIDRS, scrapers=OBJECTS),
        "nodePolicy": members(enabled=FLAG),
        "allocationPolicy": ALLOCATION_POLICY,
        "rbac": members(create=FLAG),
        "serviceAccounts": members(server=ACCOUNT, node=ACCOUNT),
        "uninstall": UNINSTALL,
        "verify": VERIFY,
        "monitoring": MONITORING,
    }
    used = _used(definitions, document)
    return {"$schema": DRAFT, "title": "Values of the chart koordinator-adapter", **document, "definitions": used}


def _used(definitions: Mapping[str, Schema], document: Schema) -> Mapping[str, Schema]:
    """The definitions that are referenced."""
    referred = json.dumps([document, definitions])
    return {name: held for name, held in sorted(definitions.items()) if f"#/definitions/{name}" in referred}


def _agent(found: Schema) -> Schema:
    return members(
        **PODS | {"listenHost": TEXT} | DAEMON_SET,
        enabled=FLAG,
        settings=found,
        runtimeClassName=NAME_OF_OBJECT,
        privileged=FLAG,
        hostPID=FLAG,
        port=PORT,
        kubeletRoot=PATH,
        library=LIBRARY,
        terminationGracePeriodSeconds=COUNT,
    )


def _vendor() -> Schema:
    """A vendor of another package, as ``hami-plugins allocator chart-values`` prints it."""
    resource = {**members(name=NAME, key=TEXT, ignored=FLAG), "required": ["name", "key", "ignored"]}
    entry = members(
        name=NAME,
        section=TEXT,
        word=TEXT,
        kubeScheduler=FLAG,
        hami=FLAG,
        lock=TEXT,
        keys={"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9./_-]+$"}},
        jobs=NAMES,
        resources={"type": "array", "items": resource},
    )
    return {**entry, "required": list(entry["properties"])}


def _kube_scheduler() -> Schema:
    pods = {name: held for name, held in PODS.items() if name not in {"image", "hostNetwork", "listenHost"}}
    return members(
        **pods,
        **DEPLOYMENT,
        enabled=FLAG,
        image=TEXT,
        imagePullPolicy=IMAGE["properties"]["pullPolicy"],
        profile=OBJECT,
        serviceAccount=ACCOUNT,
    )


def _server(found: Schema) -> Schema:
    """An allocator, whatever it allocates."""
    issuer = members(name=NAME_OF_OBJECT, kind=one_of("Issuer", "ClusterIssuer"), group=NAME)
    return members(
        **PODS,
        **DEPLOYMENT,
        settings=found,
        service=SERVICE,
        ports=members(plain=PORT, webhooks=PORT),
        webhooks=members(
            url={"type": "string", "pattern": "^(https://.+)?$"},
            exempt=NAMES,
            markedOnly=FLAG,
            timeoutSeconds={"type": "integer", "minimum": 0, "maximum": 30},
            failurePolicy=one_of("", "Fail", "Ignore"),
            namespaceSelector=SELECTOR,
            objectSelector=SELECTOR,
        ),
        certificate=members(
            source=one_of("bootstrap", "certManager", "secret"),
            names=NAMES,
            issuer=issuer,
            secretName=NAME_OF_OBJECT,
            caBundle=TEXT,
            serviceAccount=ACCOUNT,
        ),
        topologySpread=FLAG,
    )


def _plain(found: Any) -> Any:
    """Without what no reader of values needs, and with references as draft 7 has them."""
    if isinstance(found, list):
        return [_plain(each) for each in found]
    if not isinstance(found, dict):
        return found
    if isinstance(found.get("$ref"), str):  # draft 7 ignores everything next to a reference
        return {"$ref": found["$ref"].replace("#/$defs/", "#/definitions/")}
    words = {"title", "description"}  # which are also names of members, and then stand for objects
    return {
        name: _plain(held)
        for name, held in found.items()
        if name != "default" and (name not in words or isinstance(held, dict))
    }


def text(document: Schema) -> str:
    """As it is kept."""
    return json.dumps(document, indent=1) + "\n"


SCHEMAS: Final[Mapping[str, Callable[[], Schema]]] = {
    "volcano-vgpu": volcano_vgpu,
    "allocator": allocator,
    "koordinator-adapter": koordinator_adapter,
}


def main() -> None:
    """Write the files."""
    for name, schema in SCHEMAS.items():
        (CHARTS / name / FILE).write_text(text(schema()))
    (CHARTS.parent / FILE).write_text(text(umbrella()))


if __name__ == "__main__":
    main()
