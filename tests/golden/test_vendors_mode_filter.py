"""Which devices a request looks at at all: by NVIDIA's modes, and by the word of the vendor."""

from hami_plugins.engine.demand import selector_of
from hami_plugins.model.nodes import NodeShape
from tests.golden import cases, notation
from tests.golden.test_vendors_filters import accepts_model

DEVIATIONS = {
    "modefilter-009": "HAMi looks for the vendor's word in the card's model, so a 910B4 request sees a 910B4-1; we go "
    "by the vendor that registered the card",
    "modefilter-014": "HAMi overlooks a card whose model does not contain the vendor's word; who registered it counts",
}


@cases.each("hami-vendors/mode-filter.yaml")
def test_request_sees_the_device_as_its_vector_says(case: cases.Case) -> None:
    given = case.given
    if given["op"] == "vgpu-mode":
        spec = notation.vendor("NVIDIA")
        said = {} if given["annotation"] is None else {spec.keys.mode: given["annotation"]}
        seen = accepts_model(selector_of(spec.keys, said), model="NVIDIA A100", mode=given["mode"])
    else:
        asked, has = notation.vendor(given["request_type"]), _registrar(given["device_type"])
        row = {"count": 1, "totalmem": 1, "totalcore": 1, "index": 0, "health": True, "type": given["device_type"]}
        shape = NodeShape((notation.device(notation.vendor(has), row),))
        seen = asked.name in shape.positions
    assert seen is (case.expect["ok"] is not (case.id in DEVIATIONS))


def _registrar(model: str) -> str:
    """Whose agent would register a card of this model."""
    if model.startswith("Ascend"):
        return model
    return next((word for word in ("NVIDIA", "DCU") if word in model), "AMD")
