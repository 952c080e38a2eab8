"""Memory asked for to memory booked: Ascend's templates and the slices of a Kunlun card."""

from hami_plugins.vendors import ascend, kunlun
from tests.golden import cases

CHIPS = {chip.word: chip for chip in ascend.CHIPS}


@cases.each("hami-vendors/trim.yaml")
def test_memory_is_booked_as_its_vector_says(case: cases.Case) -> None:
    memory, expect = case.given["memory"], case.expect
    if case.given["backend"] == "XPU":
        size = kunlun.slice_of(memory)
        assert (size, size * 100 // kunlun.CARD_MEMORY) == (expect["memory"], expect["cores"])
        return
    cut = CHIPS[case.given["backend"]].card.cut(memory)
    assert (cut is not None) == expect["valid"]
    assert (cut or (0, "")) == (expect["memory"], expect["template"])
