"""Names of resources as Koordinator's scheduler reads them."""

from __future__ import annotations

import pytest

from hami_plugins.engine import koordinator
from tests.builders import a_container, a_pod, amounts

CARD = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("name", "among", "placed_here", "read"),
    [
        pytest.param(CARD, (), True, ("koordinator.sh/gpu", 200), id="whole cards"),
        pytest.param(CARD, (CARD, "cpu"), True, ("koordinator.sh/gpu", 200), id="with plain resources"),
        pytest.param(CARD, ("nvidia.com/gpumem",), True, (CARD, 2), id="parts of HAMi's"),
        pytest.param(CARD, ("koordinator.sh/gpu-core",), True, (CARD, 2), id="parts of Koordinator's"),
        pytest.param(CARD, ("kubernetes.io/gpu-core",), True, (CARD, 2), id="parts by a deprecated name"),
        pytest.param(CARD, (), False, (CARD, 2), id="another scheduler"),
        pytest.param("kubernetes.io/gpu-core", (), False, ("koordinator.sh/gpu-core", 2), id="a deprecated name"),
        pytest.param("cpu", (), True, ("cpu", 2), id="anything else"),
    ],
)
def test_an_amount_is_read_by_its_name_and_those_beside_it(
    name: str, among: tuple[str, ...], placed_here: bool, read: tuple[str, int]
) -> None:
    amount = amounts({name: 2})[name]
    found, meant = koordinator.as_read(name, amount, among, placed_here=placed_here)
    assert (found, meant.whole) == read


def test_a_pod_without_such_names_is_the_same_pod() -> None:
    pod = a_pod(a_container({"koordinator.sh/gpu": 100}), scheduler=koordinator.SCHEDULER)
    assert koordinator.read_by_its_scheduler(pod) is pod
