"""From policy words to sort keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.policies import PolicyDefaults, device_order, policy_of, volcano_policy
from hami_plugins.errors import WireError
from hami_plugins.model.policy import DEFAULT_POLICY, NodePolicy, SortKey, Weights

K = SortKey
DEFAULTS = PolicyDefaults()
NODE, DEVICE, WEIGHTS = (
    "hami.io/node-scheduler-policy",
    "hami.io/gpu-scheduler-policy",
    "hami.io/device-scoring-weights",
)


def test_a_pod_that_says_nothing_gets_the_schedulers_flags() -> None:
    assert policy_of({}, DEFAULTS) == DEFAULT_POLICY
    found = policy_of({}, PolicyDefaults(node="spread", device="binpack"))
    assert (found.node, found.order[0]) == (NodePolicy.SPREAD, K.MOST_SCORE)
    assert (found.node_words, found.device_words) == ("spread", "binpack")


@pytest.mark.parametrize(
    ("words", "policy"),
    [("spread", NodePolicy.SPREAD), ("binpack", NodePolicy.BINPACK), ("Spread", NodePolicy.BINPACK)],
)
def test_a_node_policy_is_spread_or_else_binpack(words: str, policy: NodePolicy) -> None:
    assert policy_of({NODE: words}, DEFAULTS).node is policy


def test_tokens_of_the_device_policy_set_flags_wherever_they_stand() -> None:
    found = policy_of({DEVICE: "binpack, mutex ,topology-aware"}, DEFAULTS)
    assert (found.exclusive, found.near) == (True, True)
    plain = policy_of({DEVICE: "binpack,mutexes"}, DEFAULTS)
    assert (plain.exclusive, plain.near) == (False, False)


@pytest.mark.parametrize(
    ("words", "bound"), [("true", True), ("1", True), ("T", True), ("yes", False), ("", False), ("false", False)]
)
def test_numa_binding_is_a_go_truth_value(words: str, *, bound: bool) -> None:
    assert policy_of({"nvidia.com/numa-bind": words}, DEFAULTS).one_numa is bound


def test_weights_are_read_and_unreadable_ones_refused() -> None:
    assert policy_of({WEIGHTS: "slot=2,core=0,memory=3"}, DEFAULTS).weights == Weights(2, 0, 3)
    with pytest.raises(WireError):
        policy_of({WEIGHTS: "slot=many"}, DEFAULTS)


@pytest.mark.parametrize(
    ("words", "one_numa", "order"),
    [
        ("spread", False, (K.LEAST_SCORE, K.HIGH_NUMA, K.LAST)),
        ("topology-aware", False, (K.LEAST_SCORE, K.HIGH_NUMA, K.LAST)),
        ("binpack", False, (K.MOST_SCORE, K.HIGH_NUMA, K.LAST)),
        ("mutex", False, (K.LEAST_SHARED, K.HIGH_NUMA, K.LAST)),
        ("mutex", True, (K.LEAST_SHARED, K.HIGH_NUMA, K.LAST)),
        ("binpack", True, (K.LOW_NUMA, K.MOST_SCORE, K.LAST)),
        ("spread", True, (K.HIGH_NUMA, K.LEAST_SCORE, K.LAST)),
        ("numa", False, (K.HIGH_NUMA, K.HIGH_INDEX, K.LAST)),
        ("numa,binpack", False, (K.HIGH_NUMA, K.MOST_SCORE, K.HIGH_INDEX, K.LAST)),
        (" binpack , numa ", False, (K.MOST_SCORE, K.HIGH_NUMA, K.HIGH_INDEX, K.LAST)),
        ("binpack,binpack,spread", False, (K.MOST_SCORE, K.LEAST_SCORE, K.HIGH_INDEX, K.LAST)),
        ("mutex,topology-aware", False, (K.LEAST_SCORE, K.HIGH_INDEX, K.LAST)),
        ("binpack,numa", True, (K.HIGH_NUMA, K.MOST_SCORE, K.HIGH_INDEX, K.LAST)),
        ("spread,", True, (K.HIGH_NUMA, K.LEAST_SCORE, K.HIGH_INDEX, K.LAST)),
        ("numa,spread", True, (K.HIGH_NUMA, K.LEAST_SCORE, K.HIGH_INDEX, K.LAST)),
    ],
)
def test_words_say_in_which_order_devices_are_tried(words: str, one_numa: bool, order: tuple[SortKey, ...]) -> None:
    assert device_order(words, one_numa=one_numa) == order


def test_volcanos_argument_decides_and_nodes_go_by_score() -> None:
    found = volcano_policy(PolicyDefaults(volcano="spread"))
    assert (found.node, found.order, found.device_words) == (NodePolicy.BINPACK, (K.HIGH_INDEX,), "spread")


def test_newer_volcanos_order_cards_too() -> None:
    newer = {word: volcano_policy(PolicyDefaults(volcano=word, volcano_orders_cards=True)).order for word in
             ("binpack", "spread", "none")}  # fmt: skip
    assert newer == {
        "binpack": (K.MOST_MEMORY, K.LOW_INDEX),
        "spread": (K.LEAST_SHARED, K.LOW_INDEX),
        "none": (K.HIGH_INDEX,),
    }


@given(st.dictionaries(st.sampled_from([NODE, DEVICE, WEIGHTS, "nvidia.com/numa-bind"]), st.text()))
def test_any_words_give_a_policy_that_decides_every_tie(annotations: dict[str, str]) -> None:
    try:
        found = policy_of(annotations, DEFAULTS)
    except WireError:
        return
    assert found.order[-1] is K.LAST
