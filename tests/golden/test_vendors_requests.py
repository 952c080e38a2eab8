"""Container resources to device requests, every vendor."""

from typing import Any

from tests.golden import cases, notation

_WRAPS = "HAMi casts a count beyond int32 and takes what is left of it; we refuse it"
_FRACTION = "HAMi takes a memory amount with a fraction for none and allocates the whole card; we refuse it"
_THOUSANDS = "HAMi takes the canonical form 1k of a bare 1000 for bytes; an integer is an integer however it is spelled"

DEVIATIONS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(
        (
            "req-035",
            "req-049",
            "req-145",
            "req-150",
            "req-194",
            "req-200",
            "req-206",
            "req-217",
            "req-223",
        ),
        (_WRAPS, notation.REFUSED),
    ),
    "req-034": (
        "ambiguous in the text; as in HAMi's code a fractional core amount keeps the default",
        {"nums": 1, "memreq": 0, "pct": 100, "cores": 0},
    ),
    "req-066": (
        "the API server stores 16.0Gi as 16Gi, an integer beyond int32; HAMi then reads no request",
        notation.REFUSED,
    ),
    "req-067": (_FRACTION, notation.REFUSED),
    "req-162": (_THOUSANDS, {"nums": 1, "memreq": 1_024_000, "pct": 0, "cores": 100}),
    "req-163": (_THOUSANDS, {"nums": 1, "memreq": 1_024_000, "pct": 0, "cores": 100}),
    "req-164": (_THOUSANDS, {"nums": 1, "memreq": 2_048_000, "pct": 0, "cores": 100}),
    **dict.fromkeys(
        ("req-254", "req-261"), ("an explicit zero is refused, as HAMi's own webhook refuses it", notation.REFUSED)
    ),
    "req-265": (
        "ambiguous in the text; a whole device is a whole device, whether anybody learned its cores or not",
        {"nums": 1, "memreq": 0, "pct": 0, "cores": 2},
    ),
    "req-267": (
        "what a device has is not known when the pod is admitted, so odd counts of cores are refused",
        notation.REFUSED,
    ),
}
"""What differs on purpose: why, and what we answer instead."""


@cases.each("hami-vendors/requests.yaml")
def test_request_is_read_as_its_vector_says(case: cases.Case) -> None:
    spec = notation.vendor(case.given["backend"], case.given.get("config"))
    given = notation.container(case.given)
    found = notation.asked(spec, given)
    _, expected = DEVIATIONS.get(case.id, ("", case.expect.get("request")))
    if expected is None:
        # HAMi drops what it cannot read; we drop only what asks for nothing.
        assert found == (notation.REFUSED if notation.names_an_amount(spec, given) else None)
    else:
        assert notation.same_request(spec, found, expected, case.given.get("config"))
