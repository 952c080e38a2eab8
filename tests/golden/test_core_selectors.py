"""Which devices the allow and deny lists of ids and models accept."""

from hami_plugins.engine.checks import wanted_model
from hami_plugins.engine.demand import selector_of
from hami_plugins.model.units import DeviceId
from tests import acme, builders
from tests.golden import cases


@cases.each("hami-core/selectors.yaml")
def test_device_is_accepted_as_its_vector_says(case: cases.Case) -> None:
    given, keys = case.given, acme.SPEC.keys
    use, avoid = (
        (keys.use_ids[0], keys.avoid_ids[0]) if given["kind"] == "uuid" else (keys.use_models, keys.avoid_models)
    )
    said = {use: given["use"], avoid: given["nouse"]}
    selector = selector_of(keys, {key: text for key, text in said.items() if text is not None})
    request = builders.a_request(selector=selector)
    candidate = builders.a_candidate(builders.a_device(model=given["value"]))
    accepted = selector.accepts_id(DeviceId(given["value"])) and (
        given["kind"] == "uuid" or wanted_model(candidate, builders.an_ask(request)) is None
    )
    assert accepted is case.expect["allowed"]
