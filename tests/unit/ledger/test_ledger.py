"""What the ledger answers, and what it holds for whom."""

from typing import Any

import pytest

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Intake, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.ledger.answers import Code, Declined, Granted, Source
from hami_plugins.ledger.ledger import Ledger
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import objects

REGISTRY = Registry([SPEC])
RULES = Rules()
NOW_NS = 1_790_000_000_000_000_000


def a_node(name: str = "n1", *cards: str, memory: int = 40_960, slots: int = 10) -> dict[str, Any]:
    """A node with one card of 40,960 MiB, unless told otherwise."""
    names = cards or (f"GPU-{name}-0",)
    register = "".join(f"{card},{slots},{memory},NVIDIA-A100,true,hami-core:" for card in names)
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"volcano.sh/node-vgpu-register": register}},
        "status": {},
    }


def a_pod(name: str = "p", *, memory: int = 10_000, count: int = 1, uid: str = "", **spec: Any) -> dict[str, Any]:
    """A pod that asks for 10,000 MiB of one card."""
    limits = {"volcano.sh/vgpu-number": str(count), "volcano.sh/vgpu-memory": str(memory)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": uid or f"uid-{name}", "annotations": {}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "resources": {"limits": limits}}], **spec},
        "status": {"phase": "Pending"},
    }


def asks(raw: dict[str, Any]) -> Intake:
    """The pod as it reaches the ledger."""
    return take_in(objects.pod(raw), REGISTRY, RULES)


@pytest.fixture
def ledger() -> Ledger:
    """A ledger that knows one node with one card."""
    made = Ledger(Decider(REGISTRY))
    made.see_node(objects.node_object(a_node()))
    return made


def test_a_pod_gets_a_place_and_the_last_slice_is_given_once(ledger: Ledger) -> None:
    first, second = asks(a_pod("a", memory=30_000)), asks(a_pod("b", memory=30_000))

    granted = ledger.grant(NodeName("n1"), first, 0)
    refused = ledger.grant(NodeName("n1"), second, 0)

    assert isinstance(granted, Granted)
    assert granted.source is Source.PLACED
    assert isinstance(refused, Declined)
    assert refused.code is Code.CARDS
    ledger.forget_pod(PodUid("uid-a"), 1)
    assert isinstance(ledger.answer(NodeName("n1"), second), Fit)


def test_a_grant_is_written_with_all_six_keys(ledger: Ledger) -> None:
    intake = asks(a_pod())
    granted = ledger.grant(NodeName("n1"), intake, 0)
    assert isinstance(granted, Granted)

    assert ledger.annotations(granted, intake.pod, now_ns=NOW_NS) == {
        "volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,10000,0:",
        "volcano.sh/devices-to-allocate": "GPU-n1-0,NVIDIA,10000,0:",
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": "1790000000",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1790000000",
    }
