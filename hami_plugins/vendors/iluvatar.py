"""Iluvatar cards: one vendor per model, all alike but for the name in their keys.

Source: HAMi 2.10.0 ``pkg/device/iluvatar/device.go``. A container with several cards gets all cores of each (the
webhook says so). Deviations from HAMi 2.10, on purpose: an unusable amount is refused (HAMi takes the container for one
without cards), and negative cores are refused.
"""

from __future__ import annotations

from typing import Final

from hami_plugins.engine.inventories import colon_register
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.units import MiB, VendorName
from hami_plugins.model.vendor import AdmissionChange, ContainerAdmission, RequestRules, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.vendors import facts

MODELS: Final = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
"""In the order of HAMi's device config."""

NAME_VARIABLE: Final = "SOL_CONTINER_NAME"
"""The vendor's runtime looks for this spelling."""


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """All cores for a container with several cards, and the container's name for the vendor's runtime."""
    count = container.limits.get(spec.resources.count)
    if count is None:
        return ContainerAdmission(claimed=False)
    changes: list[AdmissionChange] = []
    if count.ceiling > 1:
        changes.append(AdmissionChange("limit", spec.resources.cores, str(count.ceiling * 100)))
    if container.name and NAME_VARIABLE not in container.env:
        changes.append(AdmissionChange("env", NAME_VARIABLE, container.name))
    return ContainerAdmission(claimed=True, changes=tuple(changes))


def spec_of(model: str) -> VendorSpec:
    """The vendor of one model."""
    resources = ResourceNames(
        count=f"iluvatar.ai/{model}-vgpu",
        memory=f"iluvatar.ai/{model}.vMem",
        cores=f"iluvatar.ai/{model}.vCore",
    )
    return VendorSpec(
        name=VendorName(model),
        title=f"Iluvatar {model}",
        vendor="Iluvatar",
        resources=resources,
        keys=AnnotationKeys(
            allocated=f"hami.io/{model}-devices-allocated",
            to_allocate=f"hami.io/{model}-devices-to-allocate",
            register=f"hami.io/node-{model}-register",
            handshake=f"hami.io/node-handshake-{model}",
            use_ids=(f"hami.io/use-{model}-uuid",),
            avoid_ids=(f"hami.io/no-use-{model}-uuid",),
        ),
        inventory=colon_register,
        requests=RequestRules(memory_unit=MiB(256)),
        admit=admit,
        memory_step="256 MiB",
        several="all cores of each card",
        facts=facts.iluvatar(model),
    )


SPECS: Final = tuple(spec_of(model) for model in MODELS)
