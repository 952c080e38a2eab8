"""HAMi's notation in the vendor vectors: requests as ``R(nums, memreq, pct, cores)``, rows of devices, config keys."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from hami_plugins.engine.demand import request_of, selector_of
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, DeviceShare, DeviceUsage, Mark, Profile, Tenant
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceRequest, MemoryDemand, Percent
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import ascend, awsneuron, builtin
from hami_plugins.wire import drs, quantity

Row = dict[str, Any]

REFUSED = "refused"
"""What we say to a request that HAMi silently takes for none."""

_OPTIONS = {
    "memoryFactor": "memory_factor",
    "defaultMemory": "default_memory",
    "defaultCores": "default_cores",
    "defaultGPUNum": "default_count",
    "overwriteEnv": "overwrite_env",
    "gpuCorePolicy": "core_policy",
    "runtimeClassName": "runtime_class",
}


@cache
def registry() -> Any:
    """The built-in vendors with their stock settings."""
    return builtin()


def vendor(backend: str, config: Mapping[str, Any] | None = None) -> VendorSpec:
    """A vendor, with those settings of HAMi's device config that differ from the stock ones."""
    config = config or {}
    spec: VendorSpec = registry()[VendorName(backend)]
    chips = {chip.word: chip for chip in ascend.CHIPS}
    if "superPod" in config:
        spec = ascend.spec_of(replace(chips[backend], super_pod=config["superPod"]))
    if "templates" in config:
        card = replace(chips[backend].card, templates=tuple(config["templates"]))
        spec = ascend.spec_of(replace(chips[backend], card=card))
    options = {_OPTIONS[key]: value for key, value in config.items() if key in _OPTIONS}
    if "hamiVnpuCore" in config:
        options["flags"] = {"hamiVnpuCore": config["hamiVnpuCore"]}
    return replace(spec, options=replace(spec.options, **options)) if options else spec


def container(
    given: Mapping[str, Any], *, name: str = "main", kind: ContainerKind = ContainerKind.APP, env: Collection[str] = ()
) -> Container:
    """A container from the vectors' ``limits`` and ``requests``."""
    return Container(
        name=name,
        kind=kind,
        limits=_amounts(given.get("limits")),
        requests=_amounts(given.get("requests")),
        env=frozenset(env),
    )


def pod(*containers: Container, annotations: Mapping[str, str] | None = None, runtime_class: str | None = None) -> Pod:
    """A pod of such containers."""
    return Pod(
        namespace="default",
        name="p",
        containers=containers,
        annotations=annotations or {},
        runtime_class=runtime_class,
    )


def asked(spec: VendorSpec, of: Container, annotations: Mapping[str, str] | None = None) -> DeviceRequest | str | None:
    """What a container asks of a vendor; the word ``REFUSED`` when that means nothing."""
    try:
        return request_of(spec, of, pod(of, annotations=annotations))
    except InvalidRequestError:
        return REFUSED


def written(request: DeviceRequest, *, cores_per_device: int = 0) -> Row:
    """Our request in HAMi's four numbers. Of Neuron's whole devices HAMi names the cores that it learned they have."""
    memory, percent = 0, 0
    if isinstance(request.memory, Percent):
        percent = request.memory.of_device
    else:
        memory = request.memory.mib
    match request.vendor:
        case "GCU":
            memory = 100
        case "AMD":
            percent = 0
        case "Enflame":
            memory, percent = (request.slices, 0) if request.slices else (memory, -1)
    cores = cores_per_device if request.option(awsneuron.WHOLE) and not request.cores else request.cores
    return {"nums": request.count, "memreq": memory, "pct": percent, "cores": cores}


def same_request(
    spec: VendorSpec, found: DeviceRequest | str | None, expected: Row | str, config: Mapping[str, Any] | None = None
) -> bool:
    """Whether we read a request as HAMi does. Where memory is named, the percentage means nothing (save Enflame's)."""
    if found is None or isinstance(found, str) or isinstance(expected, str):
        return found == expected
    ours = written(found, cores_per_device=(config or {}).get("cores_per_device") or 2)
    members = [name for name in expected if name != "pct" or not expected["memreq"] or spec.name == "Enflame"]
    return all(ours[name] == expected[name] for name in members)


def names_an_amount(spec: VendorSpec, of: Container) -> bool:
    """Whether a container names anything but zeros of a vendor, where the vendor looks."""
    lists = (of.limits, of.requests) if spec.requests.requests_too else (of.limits,)
    return any(name in amounts and amounts[name].nano for amounts in lists for name in spec.resources.all())


def read(spec: VendorSpec, row: Row, annotations: Mapping[str, str]) -> DeviceRequest:
    """HAMi's four numbers as our request, with the selection that the pod's annotations make."""
    memory: MemoryDemand = Absolute(MiB(row["memreq"]))
    slices = 0
    if spec.name == "Enflame" and row["pct"] == 0:
        memory, slices = Absolute(MiB(0)), row["memreq"]
    elif spec.name == "GCU" or (not row["memreq"] and (row["pct"] or spec.name == "AMD")):
        memory = Percent(100 if spec.name == "AMD" else row["pct"])
    return DeviceRequest(
        vendor=spec.name,
        count=row["nums"],
        memory=memory,
        cores=CoreShare(row["cores"]),
        slices=slices,
        selector=selector_of(spec.keys, annotations),
        options=_options(spec, annotations),
    )


def _options(spec: VendorSpec, annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The vendor words of a pod's annotations, as a request for one device carries them."""
    one = asked(spec, container({"limits": {spec.resources.count: "1"}}), annotations)
    # Whether a Neuron request means whole devices depends on its resources, which the vectors omit.
    return one.options if isinstance(one, DeviceRequest) and spec.name != "AWSNeuron" else ()


def device(spec: VendorSpec, row: Row) -> Device:
    """A row of HAMi's device usage as a device. HAMi writes a Neuron device's cores as a mask."""
    facts = row.get("custominfo") or {}
    group = facts.get("NetworkID", facts.get("AIC", facts.get("LinkZone")))
    profiles: tuple[Profile, ...] = ()
    if "profiles" in facts:
        # A node whose profiles make no sense has no such card; the vectors want to see one that can do nothing.
        with suppress(WireError):
            profiles, _ = drs.profiles_of("row", drs.DrsNode((), facts["profiles"]))
    cores, mode = row["totalcore"], row.get("mode") or ""
    if spec.name == "AWSNeuron":
        cores, mode = cores.bit_count(), "ring" if "inf" in facts.get("AWSNodeType", "") else ""
    return Device(
        vendor=spec.name,
        model=row.get("type", spec.name),
        slots=row["count"],
        memory=MiB(row["totalmem"]),
        cores=CoreShare(cores),
        index=row["index"],
        numa=row.get("numa", 0),
        mode=mode,
        healthy=row["health"],
        group=None if group is None else str(group),
        profiles=profiles,
        traits=tuple(sorted((key, str(facts[key])) for key in ("DeviceStrategy", "minor") if key in facts)),
    )


def usage(spec: VendorSpec, row: Row, app_classes: Iterable[str] = ()) -> DeviceUsage:
    """The allocated part of a row. HAMi keeps a MetaX card's QoS with the card; here it is kept with the pods that set
    it.
    """
    cores, marks = row["usedcores"], tuple[Mark, ...]()
    if spec.name == "AWSNeuron" and cores:
        marks, cores = (CoreMask(cores),), cores.bit_count()
    if spec.name == "Metax-SGPU" and row["used"]:
        quality = row["custominfo"]["QosPolicy"]
        marks = tuple(Tenant(each, quality) for each in app_classes) or (Tenant("", quality),)
    return DeviceUsage(row["used"], MiB(row["usedmem"]), CoreShare(cores), marks)


def booked_cores(share: DeviceShare | AllocatedShare) -> int:
    """The cores of a share as HAMi writes them."""
    return share.mark.bits if isinstance(share.mark, CoreMask) else share.cores


def _amounts(raw: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: quantity.parse(text, key=name) for name, text in (raw or {}).items()}
