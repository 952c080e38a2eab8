"""The codec vectors of the vendors' reference: assignments, text registers, pair scores."""

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import node_devices, pod_devices
from tests.golden import cases
from tests.golden.test_wire_node_devices import device
from tests.golden.test_wire_pod_devices import assigned, without_the_extra_container

DEVIATIONS = {
    "codec-014": "HAMi decodes the empty text to one empty container; it holds nothing, so we find no container",
}


@cases.each("hami-vendors/codecs.yaml")
def test_codec_does_what_its_vector_says(case: cases.Case) -> None:
    operation, text = case.given["op"], case.given.get("text", "")
    decode = {
        "decode-pod": pod_devices.decode,
        "decode-node-colon": node_devices.decode_csv,
        "decode-pair-score": node_devices.decode_pair_scores,
    }.get(operation)
    if decode is None:
        assert pod_devices.encode(assigned(case.given["containers"])) == case.expect["text"]
    elif case.refused:
        with pytest.raises(WireError):
            decode(case.id, text)
    elif case.id == "codec-014":
        assert decode(case.id, text) == ()
    elif "containers" in case.expect:
        assert decode(case.id, text) == without_the_extra_container(case.expect["containers"])
    elif "devices" in case.expect:
        assert decode(case.id, text) == tuple(device(members) for members in case.expect["devices"])
    else:
        assert decode(case.id, text) == case.expect["scores"]
