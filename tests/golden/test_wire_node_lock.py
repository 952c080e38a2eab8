"""The node lock annotation against the vectors."""

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import node_lock
from tests.golden import cases

DEVIATIONS = {
    "error text": "the vectors' error texts are HAMi's; ours name the annotation, its text and what is wrong",
}


@cases.each("hami-core/nodelock-value.yaml")
def test_node_lock_is_read_as_its_vector_says(case: cases.Case) -> None:
    text = case.given["text"]
    if case.refused:
        with pytest.raises(WireError):
            node_lock.parse(case.id, text)
        return
    lock = node_lock.parse(case.id, text)
    assert (lock.namespace, lock.name) == (case.expect["namespace"], case.expect["name"])
    assert node_lock.encode(lock._replace(namespace="", name="")) == case.expect["timestamp"]
    assert node_lock.encode(lock) == text
