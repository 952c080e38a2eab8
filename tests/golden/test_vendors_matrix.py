"""The matrix of capabilities in HAMi's guide to other devices (2025-05), against what is printed today."""

import pytest

from hami_plugins.model.units import VendorName
from hami_plugins.output.vendors import features
from hami_plugins.vendors import builtin

GUIDE = {
    "NVIDIA": "yes yes yes yes yes yes",
    "MLU": "yes yes yes yes no no",
    "Ascend910B3": "yes - yes - yes yes",
    "DCU": "yes developing - - no no",
    "BI-V100": "yes yes - - no no",
    "Metax-SGPU": "yes developing - - no no",
    "AMD": "yes developing - - no no",
}
"""Memory isolation, core isolation, UUID filter, model filter, NUMA, topology; ``-`` where the guide has nothing."""

TODAY = {
    ("MLU", "model filter"): "no",  # cambricon.com/use-mlutype is read by no code
    ("Ascend910B3", "NUMA"): "no",  # HAMi's code for Ascend looks at no NUMA node; it has rings of cards
    ("DCU", "core isolation"): "yes",
    ("Metax-SGPU", "core isolation"): "yes",
    ("Metax-SGPU", "topology"): "yes",  # MetaXLink zones came later
    ("AMD", "core isolation"): "yes",
}
"""What the guide says otherwise than code and pages of 2.10."""


@pytest.mark.parametrize("name", GUIDE)
def test_each_cell_of_the_guide_is_printed_or_a_known_difference(name: str) -> None:
    printed = [each for each in features(builtin()[VendorName(name)]) if each.name != "runtime class"]
    for (feature, _, (support, _, _)), told in zip(printed, GUIDE[name].split(), strict=True):
        wanted = TODAY.get((name, feature), told)
        if wanted != "-":
            assert support.value == wanted, feature
