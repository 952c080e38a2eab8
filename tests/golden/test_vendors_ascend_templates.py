"""The chart's tables of Ascend templates."""

from hami_plugins.vendors import ascend
from tests.golden import cases

CHIPS = {chip.word: chip for chip in ascend.CHIPS}


@cases.each("hami-vendors/ascend-templates.yaml")
def test_chip_has_the_table_of_its_vector(case: cases.Case) -> None:
    chip, expect = CHIPS[case.given["backend"]], case.expect
    assert {
        "chip_name": chip.driver_name,
        "memory_allocatable": chip.card.usable,
        "memory_capacity": chip.card.capacity,
        "ai_core": chip.ai_cores,
        "ai_cpu": chip.ai_cpus or None,
        "super_pod": chip.super_pod,
        "templates": [
            {"name": name, "memory": memory, "ai_core": cores, "ai_cpu": cpus or None}
            for name, memory, cores, cpus in chip.card.templates
        ],
        "v_device_count": chip.card.slots,
    } == {name: value for name, value in expect.items() if name != "memory_factor"}
    # An unset factor counts as 1.
    assert chip.options.memory_factor == max(expect["memory_factor"], 1)
