"""How vendors read amounts, as the reference's table has it: each cell is tried on the vendor."""

from typing import Any

from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import INT32_MAX
from hami_plugins.model.vendor import VendorSpec
from tests.golden import cases, notation

_UNCHECKED = "HAMi casts the count unchecked; we refuse it"
_FRACTION = "HAMi takes a fraction for nothing said; we refuse it"

DEVIATIONS: dict[str, dict[str, str]] = {
    **{f"parsetab-{row:03}": {"count_checked": _UNCHECKED} for row in (1, 2, 5, 6, 9, 11, 15, 16)},
    "parsetab-004": {"bad_memory": _FRACTION},
    "parsetab-007": {"bad_memory": _FRACTION},
    "parsetab-010": {
        "count_checked": _UNCHECKED,
        "bad_memory": "HAMi takes any memory and gives a whole card; we refuse what is no amount",
    },
}
"""What differs on purpose: the cell, and why."""

_FAMILIES = {
    "Ascend": ("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4-1", "Ascend910B4", "Ascend310P", "Ascend910C"),
    "Iluvatar": ("MR-V100", "MR-V50", "BI-V150", "BI-V100"),
}

_MEMORY = {
    "defaultMemory else pct 100": (0, 100),
    "pct 100": (0, 100),
    "pct 100 (webhook writes whole-card MiB)": (0, 100),
    "pct 100 (webhook writes 96)": (0, 100),
    "pct always 100": (0, 100),
    "pct 100 always": (0, 100),
    "pct 100 (ignored at Fit)": (0, 100),
    "98304 and pct 100": (98304, 0),
    "memory 100, pct 100": (100, 100),
    "0 (direct) / 0 = any (by spec)": (1, 0),
    "0 meaning whole card": (0, 0),
    "0": (0, 0),
}
"""A cell about omitted memory as memreq and pct; Enflame's request for one slice names it where memory stands."""

_CORES = {
    "defaultCores (0); webhook writes 100 when the memory is whole": 0,
    "100": 100,
    "always 100": 100,
    "0": 0,
    "0 (webhook writes count\u00d7100 when count > 1)": 0,
    "0 (webhook writes 16)": 0,
    "follows memory": 100,
    "0 = any": 0,
    "cores-per-device": 2,
}


@cases.each("hami-vendors/parsing-table.yaml")
def test_vendor_reads_amounts_as_its_row_says(case: cases.Case) -> None:
    backend, expect, differs = case.given["backend"], case.expect, DEVIATIONS.get(case.id, {})
    for name in _FAMILIES.get(backend, (backend,)):
        spec = notation.vendor(name)
        count = spec.resources.count
        assert (_asked(spec, requests={count: "1"}) is not None) is expect["looks_in_requests"]
        plain = _asked(spec, limits={count: "1"})
        assert isinstance(plain, DeviceRequest)
        numbers = notation.written(plain, cores_per_device=2)
        assert (numbers["memreq"], numbers["pct"]) == _MEMORY[expect["memory_omitted"]]
        assert numbers["cores"] == _CORES[expect["cores_omitted"]]
        wraps = _asked(spec, limits={count: str(2**32 + 1)})
        assert (wraps == notation.REFUSED) is (expect["count_checked"] or "count_checked" in differs)
        if spec.resources.memory:
            _assert_memory(spec, expect["bad_memory"], refuses_all="bad_memory" in differs)


def _assert_memory(spec: VendorSpec, cell: str, *, refuses_all: bool) -> None:
    count, memory = spec.resources.count, spec.resources.memory
    # Enflame's slices and its memory are two ways to ask; HAMi's rounding up of its fractions is harmless.
    one = {} if spec.name == "Enflame" else {count: "1"}
    for amount in ("-1", str(INT32_MAX * 1024)):
        found = _asked(spec, limits={**one, memory: amount})
        assert found == notation.REFUSED
    fractional = _asked(spec, limits={**one, memory: "1500m"})
    takes_fractions = spec.name == "Enflame" or (not refuses_all and "fractional" in cell)
    assert (fractional == notation.REFUSED) is not takes_fractions


def _asked(spec: VendorSpec, **lists: Any) -> DeviceRequest | str | None:
    return notation.asked(spec, notation.container(lists))
