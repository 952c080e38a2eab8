"""kube-scheduler's preempt calls: what they name, and the reply that it understands."""

from __future__ import annotations

import orjson
import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import scheduler_extender

POD = {"metadata": {"name": "high", "uid": "u-high"}}


def test_pods_are_named_by_uid_where_the_scheduler_knows_that_names_will_do() -> None:
    body = {
        "Pod": POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "u-1"}, {"UID": "u-2"}], "NumPDBViolations": 1},
            "n2": {"Pods": None, "NumPDBViolations": 0},
        },
    }
    call = scheduler_extender.preemption(orjson.dumps(body))
    assert call.pod == POD
    assert call.victims == {"n1": ("u-1", "u-2"), "n2": ()}
    assert call.budgets == {"n1": 1, "n2": 0}


def test_whole_pods_are_known_by_their_uid_and_members_in_any_case() -> None:
    pods = [{"metadata": {"name": "low", "uid": "u-1"}}]
    body = {"pod": POD, "nodeNameToVictims": {"n1": {"pods": pods, "numPDBViolations": 2}}}
    call = scheduler_extender.preemption(orjson.dumps(body))
    assert (call.victims, call.budgets) == ({"n1": ("u-1",)}, {"n1": 2})


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "Pod"),
        ({"Pod": POD, "NodeNameToMetaVictims": []}, "nodenametometavictims"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n1": 7}}, "nodenametometavictims[n1]"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n1": {"Pods": [{}]}}}, "nodenametometavictims[n1].Pods[0]"),
        ({"Pod": POD, "NodeNameToVictims": {"n1": {"Pods": [{"metadata": {}}]}}}, "Pods[0].metadata"),
        ({"Pod": POD, "NodeNameToVictims": {"n1": {"NumPDBViolations": "x"}}}, "numpdbviolations"),
    ],
)
def test_a_call_that_is_none_is_refused_by_the_member_that_is_wrong(body: object, named: str) -> None:
    with pytest.raises(WireError) as refused:
        scheduler_extender.preemption(orjson.dumps(body))
    assert named in str(refused.value)


def test_the_reply_names_pods_by_uid_and_leaves_other_nodes_out() -> None:
    victims = {NodeName("n1"): [PodUid("u-1"), PodUid("u-2")]}
    assert orjson.loads(scheduler_extender.preemption_reply(victims, {NodeName("n1"): 1})) == {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u-1"}, {"UID": "u-2"}], "NumPDBViolations": 1}}
    }
    assert orjson.loads(scheduler_extender.preemption_reply({}, {})) == {"NodeNameToMetaVictims": {}}
