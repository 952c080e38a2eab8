"""An allocator that takes over reads what HAMi wrote on its pods: everything, and nothing of it looks forged."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from hami_plugins.allocations.requests import compared, excess
from hami_plugins.engine.inventory import NodeBuilder, RecordReader
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.wire import objects
from tests.golden import corpus
from tests.golden.test_corpus import FOLDER, shipped

BOOKED_WHOLE = frozenset({"neuron-core"})
"""HAMi books a whole device where a pod asks for two of its four cores (``neuron-core-001`` of the corpus' page)."""


def larger(path: Path) -> tuple[dict[str, set[str]], dict[str, int]]:
    """What is larger than its request, and how many allocations there are, per vendor."""
    registry = shipped()
    reader, builder = RecordReader(registry), NodeBuilder(registry)
    found, read = defaultdict[str, set[str]](set), defaultdict[str, int](int)
    for case in corpus.cases([path]):
        entry = builder.entry(objects.node_object(case["node"]), NodeFacts())
        for raw in case["pods"]:
            pod = objects.pod(raw)
            record, problems = reader.record(pod)
            assert not problems
            read[case["vendor"]] += 1
            if text := excess(compared(pod, record, registry), record, entry.device):
                found[case["vendor"]].add(f"{case['id']}: {text}")
    return found, read


def test_no_allocation_that_hami_wrote_is_larger_than_its_request() -> None:
    found, read = larger(FOLDER / "hami.jsonl.gz")
    assert {vendor: texts for vendor, texts in found.items() if vendor not in BOOKED_WHOLE} == {}
    assert min(read.values()) > 10
