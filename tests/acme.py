"""A vendor that is not built in: all that a new one takes, besides its line in the registry."""

from typing import Final

from hami_plugins.engine.inventories import json_register
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames

RESOURCES: Final = ResourceNames(count="acme.example/card", memory="acme.example/memory", cores="acme.example/cores")

SPEC: Final = VendorSpec(
    name=VendorName("Acme"),
    title="Acme One",
    vendor="Acme",
    resources=RESOURCES,
    keys=AnnotationKeys(
        allocated="hami.io/acme-devices-allocated",
        to_allocate="hami.io/acme-devices-to-allocate",
        register="hami.io/node-acme-register",
        use_ids=("acme.example/use-uuid",),
        avoid_ids=("acme.example/nouse-uuid",),
        use_models="acme.example/use-type",
        avoid_models="acme.example/nouse-type",
    ),
    inventory=json_register,
)
