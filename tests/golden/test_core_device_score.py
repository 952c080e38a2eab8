"""How full a device is, by which devices are ordered."""

import pytest

from hami_plugins.engine.order import device_scores
from tests.golden import cases, core_rows


@cases.each("hami-core/device-score.yaml")
def test_device_is_as_full_as_its_vector_says(case: cases.Case) -> None:
    device, usage = core_rows.device(case.given["device"])
    requests = core_rows.requests(case.given["request"])
    (score,) = device_scores([device], [usage], core_rows.weights(case.given["weights"]), requests)
    assert score == pytest.approx(case.expect["score"])
