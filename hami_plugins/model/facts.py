"""What documents and code say about a vendor's devices, besides the rules by which they are allocated.

No decision depends on these values: they are printed, each with its source. Nothing is guessed: where no source says
anything, the support is ``unknown``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class Support(StrEnum):
    """Whether a vendor's devices have a feature.

    ``WHOLE``: a container has the whole device, so that there is nothing to isolate.
    """

    YES = "yes"
    NO = "no"
    WHOLE = "whole"
    UNKNOWN = "unknown"


class Fact(NamedTuple):
    """A statement and the document or file that makes it; both are empty where nothing is known."""

    words: str = ""
    source: str = ""


class Feature(NamedTuple):
    """Whether a vendor has a feature, by which means, and the document or file that says so."""

    support: Support = Support.UNKNOWN
    words: str = ""
    source: str = ""


UNSAID: Final = Fact()
UNSURE: Final = Feature()


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorFacts:
    """What is known about the devices of one vendor.

    * ``code``: where the rules of the ``VendorSpec`` were read: names, filters, steps.
    * ``models``: the models that the rules hold for.
    * ``memory``, ``cores``: whether a container is held to its share of them.
    * ``ids``, ``model_filter``: how pods choose devices, where that is not by annotation keys of their own.
    * ``numa``: whether the devices of a pod can be kept on one NUMA node.
    * ``topology``: whether links between devices decide about a request for several.
    * ``runtime_class``: whether containers need the vendor's container runtime, as default of the node or by
      RuntimeClass.
    * ``plugin``, ``chart``, ``node_label``: what offers the resource on a node, what installs it, which label it needs.
    """

    code: str = ""
    models: Fact = UNSAID
    memory: Feature = UNSURE
    cores: Feature = UNSURE
    ids: Feature | None = None
    model_filter: Feature | None = None
    numa: Feature = UNSURE
    topology: Feature = UNSURE
    runtime_class: Feature = UNSURE
    plugin: Fact = UNSAID
    chart: Fact = UNSAID
    node_label: Fact = UNSAID


NOTHING_KNOWN: Final = VendorFacts()
