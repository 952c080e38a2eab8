"""``python -m tests.golden.output``: write every file anew."""

from tests.golden.output.cases import CASES, HERE, printed

for name, words in CASES.items():
    (HERE / name).write_text(printed(words), encoding="utf-8")
