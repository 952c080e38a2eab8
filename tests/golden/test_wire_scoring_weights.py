"""The weights of the device score against the vectors; the error texts are HAMi's own, word for word."""

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import scoring_weights
from tests.golden import cases


@cases.each("hami-core/scoring-weights.yaml")
def test_scoring_weights_are_read_as_their_vector_says(case: cases.Case) -> None:
    if not case.refused:
        assert scoring_weights.parse(case.given["value"])._asdict() == case.expect
        return
    with pytest.raises(WireError) as caught:
        scoring_weights.parse(case.given["value"])
    words = scoring_weights.spelled(caught.value)
    wanted = case.expect["error"]
    assert wanted["text"] == words if wanted["match"] == "exact" else wanted["text"] in words
