"""``python -m tests.contract.charts.schemas`` writes the schemas of the charts' values.

What an operator may set about a process is what its ``Settings`` take; those parts are generated from them, without
what the chart says itself (where things are mounted, ports, names). A test holds the files to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from hami_plugins.allocator.settings import AllocatorSettings
from koordinator_adapter.server.settings import AdapterSettings
from neuron_topology.core.agent.settings import NeuronAgentSettings
from volcano_vgpu.agent import config
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.settings import AgentSettings

CHARTS: Final = Path("charts/hami-plugins/charts")
FILE: Final = "values.schema.json"
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

RENAMED: Final = (
    "devicePlugin", "deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling", "devices", "mockDevicePlugin",
    "resourceName", "resourceMem", "resourceMemPercentage", "resourceCores", "scheduler", "schedulerName",
)  # fmt: skip
"""Words of HAMi's chart. The schema lets them pass, for a template refuses them with the word that is used here."""

RENAMED_OF_VENDORS: Final = (
    "resourcePriority", "mluResourceName", "mluResourceMem", "mluResourceCores", "dcuResourceName", "dcuResourceMem",
    "dcuResourceCores", "metaxResourceName", "metaxResourceMem", "metaxResourceCore", "metaxsgpuTopologyAware",
)  # fmt: skip
"""Further ones, about what only the allocator has."""

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


def members(**properties: Schema) -> Schema:
    """An object with these members and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def one_of(*values: str) -> Schema:
    """One of a few words."""
    return {"type": "string", "enum": list(values)}


_PULL_SECRET: Final[Schema] = {**members(name=NAME), "required": ["name"]}
PULL_SECRETS: Final[Schema] = {"type": "array", "items": _PULL_SECRET}
SHARED_PULL_SECRETS: Final[Schema] = {"type": "array", "items": {"anyOf": [_PULL_SECRET, NAME]}}
"""What stands under ``global`` is other charts' as well, of which many take names alone."""

IMAGE: Final = members(
    registry=TEXT,
    repository=NAME,
    tag=TEXT,
    digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    pullPolicy=one_of("Always", "IfNotPresent", "Never"),
)
ACCOUNT: Final = members(create=FLAG, name=NAME_OF_OBJECT, annotations=TEXTS)
SHARED: Final[dict[str, Schema]] = {
    "enabled": FLAG,
    "global": {"type": "object", "properties": {"imageRegistry": TEXT, "imagePullSecrets": SHARED_PULL_SECRETS}},
    "nameOverride": PART_OF_NAMES,
    "fullnameOverride": PART_OF_NAMES,
    "imagePullSecrets": PULL_SECRETS,
}
LIBRARY: Final = members(
    image=TEXT,
    path=PATH,
    hostPath={"type": "string", "pattern": "^(/.*)?$"},
    sha256={"type": "string", "pattern": "^([0-9a-f]{64})?$"},
)
NETWORK_POLICY: Final = members(enabled=FLAG, apiServers=CIDRS, schedulers=OBJECTS, scrapers=OBJECTS)
UNINSTALL: Final = members(clean=FLAG, timeoutSeconds={"type": "integer", "minimum": 1})
VERIFY: Final = members(url={"type": "string", "pattern": "^(http://.+)?$"})
MONITOR: Final = members(enabled=FLAG, interval={"type": "string", "pattern": "^[0-9]+(ms|s|m)$"}, labels=TEXTS)
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
    "extraEnv": OBJECTS,
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
        **_renamed(),
        **_moved("allocator", "verify"),
    )
    needed = _used(of_agent, document)
    return {"$schema": DRAFT, "title": "Values of the chart volcano-vgpu", **document, "definitions": needed}


def umbrella() -> Schema:
    """The values of ``hami-plugins``; what stands under a product is that chart's own to look at."""
    document = members(
        **{name: SHARED[name] for name in ("enabled", "global")},
        **dict.fromkeys(SCHEMAS, OBJECT),
        **_renamed(),
        **_moved(*RENAMED_OF_VENDORS, "neuron-topology"),
    )
    return {"$schema": DRAFT, "title": "Values of the chart hami-plugins", **document}


def _renamed() -> dict[str, Schema]:
    return _moved(*RENAMED)


def _moved(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, ELSEWHERE)


def _some(**properties: Schema) -> Schema:
    """An object with these members, and others that nobody here reads."""
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
    document["properties"] |= _moved(*RENAMED, *RENAMED_OF_VENDORS)
    document["properties"] |= {
        "mode": one_of("extender", "webhook", "policy"),
        "policyVersion": one_of("v1beta1", "v1alpha1"),
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
        "verify": VERIFY,
        "monitoring": MONITORING,
    }
    needed = _used(definitions, document)
    return {"$schema": DRAFT, "title": "Values of the chart allocator", **document, "definitions": needed}


def _neuron_agent(found: Schema) -> Schema:
    """The agent of nodes with Neuron devices."""
    return members(
        **PODS,
        enabled=FLAG,
        settings=found,
        privileged=FLAG,
        port=PORT,
        toolsPath=PATH,
        kubeletRoot=PATH,
        updateStrategy=OBJECT,
        serviceAccount=ACCOUNT,
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
    server["properties"]["webhooks"]["properties"].pop("markedOnly")
    document = members(**SHARED, **server["properties"])
    node = {name: held for name, held in PODS.items() if name != "image"} | {"listenHost": TEXT}
    document["properties"] |= {
        "node": members(**node, enabled=FLAG, settings=part, library=LIBRARY, port=PORT, updateStrategy=OBJECT),
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
    """The definitions that somebody refers to."""
    referred = json.dumps([document, definitions])
    return {name: held for name, held in sorted(definitions.items()) if f"#/definitions/{name}" in referred}


def _agent(found: Schema) -> Schema:
    return members(
        **PODS | {"listenHost": TEXT},
        enabled=FLAG,
        settings=found,
        runtimeClassName=NAME_OF_OBJECT,
        privileged=FLAG,
        hostPID=FLAG,
        port=PORT,
        kubeletRoot=PATH,
        library=LIBRARY,
        updateStrategy=OBJECT,
        terminationGracePeriodSeconds=COUNT,
        extraVolumes=OBJECTS,
        extraVolumeMounts=OBJECTS,
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
        enabled=FLAG,
        image=TEXT,
        imagePullPolicy=IMAGE["properties"]["pullPolicy"],
        replicas={"type": "integer", "minimum": 1},
        profile=OBJECT,
        extraArgs=NAMES,
        podDisruptionBudget=members(enabled=FLAG),
        serviceAccount=ACCOUNT,
    )


def _server(found: Schema) -> Schema:
    """An allocator, whatever it allocates."""
    issuer = members(name=NAME_OF_OBJECT, kind=one_of("Issuer", "ClusterIssuer"), group=NAME)
    return members(
        **PODS,
        settings=found,
        replicas={"type": "integer", "minimum": 1},
        ports=members(plain=PORT, webhooks=PORT),
        webhooks=members(url={"type": "string", "pattern": "^(https://.+)?$"}, exempt=NAMES, markedOnly=FLAG),
        certificate=members(
            source=one_of("bootstrap", "certManager", "secret"),
            names=NAMES,
            issuer=issuer,
            secretName=NAME_OF_OBJECT,
            caBundle=TEXT,
        ),
        topologySpread=FLAG,
        podDisruptionBudget=members(enabled=FLAG),
    )


def _plain(found: Any) -> Any:
    """Without what no reader of values needs, and with references as draft 7 has them."""
    if isinstance(found, list):
        return [_plain(each) for each in found]
    if not isinstance(found, dict):
        return found
    if isinstance(found.get("$ref"), str):  # in draft 7 nothing beside a reference is looked at
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
