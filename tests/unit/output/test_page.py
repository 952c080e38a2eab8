"""The page: self-contained, safe with any name, and true to the plan."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.inputs import manifests, workloads
from hami_plugins.model.devices import Instance, SlicePlacement
from hami_plugins.model.nodes import NodeShape, NodeState, Problem, Taint
from hami_plugins.occupancy.devices import SegmentUnit
from hami_plugins.output import page
from hami_plugins.output.page.bars import amount_words
from hami_plugins.plan import Plan
from tests.builders import a_device, a_node, a_record, a_share, a_snapshot, allocated
from tests.unit.plan.plans import REGISTRY, a_plan, answers_of, asking, cordoned, holding

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Reader(HTMLParser):
    """Collects elements and texts, and checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data.strip())

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.elements if name in (attrs.get("class") or "").split()]

    def labels(self) -> list[str]:
        return [attrs["aria-label"] or "" for _, attrs in self.elements if "aria-label" in attrs]


def rendered(plan: Plan, **given: object) -> str:
    heading = page.Heading(title="A plan", source="before.json", made_at="2026-01-01")
    return page.render(plan, REGISTRY, heading, **given)  # type: ignore[arg-type]


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_nothing_is_fetched_and_nothing_but_the_pages_own_script_may_run() -> None:
    text = rendered(a_plan(asking()))
    reader = read(text)
    assert not [attrs for _, attrs in reader.elements if attrs.keys() & {"src", "srcset", "data", "action"}]
    assert {attrs["href"] for _, attrs in reader.elements if "href" in attrs} == {"#nodes", "#n0"}
    assert "url(" not in text
    assert "@import" not in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [attrs["content"] for _, attrs in reader.elements if attrs.get("http-equiv")]
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


@given(name=st.text(min_size=1, max_size=40))
def test_no_name_becomes_markup(name: str) -> None:
    entry = holding(a_node(name, a_device(model=name)), a_record(name=name, namespace=name))
    text = rendered(
        a_plan(asking(name=name), on=[entry]), refusals=[page.RefusalPanel(title=name, stage=name, why=name)]
    )
    plain = rendered(a_plan(asking(), on=[holding(a_node("n"), a_record())]), refusals=[_refusal()])
    assert [tag for tag, _ in read(text).elements] == [tag for tag, _ in read(plain).elements]


@pytest.mark.parametrize(
    "name", ['<script>alert("x")</script>', "\"' onmouseover='alert(1)'", "</style><b>", "{{ 7*7 }}"]
)
def test_names_are_shown_as_they_are(name: str) -> None:
    reader = read(rendered(a_plan(on=[a_node(name)])))
    assert name in reader.texts


def test_a_page_without_a_plan_says_nothing_of_one() -> None:
    idle = [holding(a_node(), a_record())]
    assert "of all cards taken" in read(rendered(a_plan(on=idle))).texts
    assert "of all cards taken, 6 % by this plan" in read(rendered(a_plan(asking(1024), on=idle))).texts


def _refusal() -> page.RefusalPanel:
    return page.RefusalPanel(title="t", stage="s", why="w")


def test_every_card_is_a_bar_of_who_holds_what() -> None:
    entry = holding(
        a_node("n", a_device(), a_device(index=1)), a_record(allocated(a_share("card-1", 4096, 30)), name="old")
    )
    reader = read(rendered(a_plan(asking(2048, name="new"), on=[entry])))
    labels = reader.labels()
    assert "default/old (running)\n4096 MiB (4 GiB) of 16 GiB, 30 of 100 cores" in labels
    assert "default/new (planned)\n2048 MiB (2 GiB) of 16 GiB" in labels
    assert "Card 1, Acme, 16 GiB: 12 GiB free, 1 of 10 slots" in labels


def test_what_cannot_be_used_is_said_in_words_not_in_colour_alone() -> None:
    sick = a_node("a", a_device(healthy=False))
    stranded = holding(a_node("b", a_device(slots=1)), a_record())
    closed = cordoned(a_node("c"))
    reader = read(rendered(a_plan(on=[sick, stranded, closed])))
    for words in ("unhealthy", "stranded", "node cordoned", "cordoned", "15 GiB stranded"):
        assert words in reader.texts
    assert "stranded: 15360 MiB (15 GiB)\nits only slot is taken" in reader.labels()


def test_a_cordoned_card_and_the_slots_of_a_pod_are_told() -> None:
    twice = allocated(a_share("card-0", 1024), a_share("card-0", 1024))
    entry = holding(a_node("n", a_device(), a_device(index=1, cordoned=True)), a_record(twice, name="two"))
    reader = read(rendered(a_plan(on=[entry])))
    assert "card cordoned" in reader.texts
    assert "16 GiB unavailable" not in reader.texts
    assert "default/two (running)\n2048 MiB (2 GiB) of 16 GiB, 2 slots" in reader.labels()


def test_a_share_of_a_card_is_told_by_what_the_card_has() -> None:
    part = Instance("1g.5gb", SlicePlacement(4, 1))
    cut = holding(a_node("a", a_device()), a_record(allocated(a_share(mark=part)), name="part"))
    bare = holding(a_node("b", a_device(memory=0, cores=0)), a_record(allocated(a_share(memory=0)), name="bare"))
    labels = read(rendered(a_plan(on=[cut, bare]))).labels()
    assert "default/part (running)\n1024 MiB (1 GiB) of 16 GiB, 1g.5gb@4" in labels
    assert "default/bare (running)" in labels


def test_equal_idle_cards_share_a_line_but_keep_a_bar_each() -> None:
    reader = read(rendered(a_plan(on=[a_node("n", *(a_device(index=at) for at in range(8)))])))
    assert "0-7" in reader.texts
    assert "8 x 16 GiB free" in reader.texts
    assert len([attrs for attrs in reader.with_class("bar") if attrs.get("role") == "group"]) == 8


def test_refusals_come_with_reasons_and_ways_out() -> None:
    refusal = page.RefusalPanel(
        title="default/big",
        stage="does not fit",
        why="asks for too much",
        reasons=(page.ReasonLine("3 nodes", "too little memory"),),
        changes=("ask for less", "add a node"),
        upstream="3/3 CardInsufficientMemory",
    )
    texts = read(rendered(a_plan(asking(100_000, name="big")), refusals=[refusal])).texts
    for words in ("default/big", "asks for too much", "3 nodes", "too little memory", "ask for less", "add a node"):
        assert words in texts
    assert "3/3 CardInsufficientMemory" in texts
    assert "0 of 1" in texts


def test_problems_and_remarks_are_listed() -> None:
    snapshot = replace(a_snapshot(a_node()), problems=(Problem("pod default/x", "no sense"),))
    texts = read(rendered(a_plan(on=snapshot), remarks=[page.PlanRemark("job.yaml", "runs no pods")])).texts
    assert {"pod default/x", "no sense", "job.yaml", "runs no pods"} <= set(texts)


def test_nodes_without_devices_are_only_counted() -> None:
    bare = replace(a_node("bare"), ids=(), state=NodeState.idle(NodeShape(())))
    assert "1 more node has no devices." in read(rendered(a_plan(on=[a_node(), bare]))).texts
    alone = read(rendered(a_plan(on=[bare]))).texts
    assert {"1 node has no devices.", "node with 0 cards"} <= set(alone)


def test_a_node_says_why_it_is_special() -> None:
    entry = a_node("n", a_device(healthy=False), a_device(index=1))
    facts = replace(
        entry.facts, ready=False, taints=(Taint("gpu", "yes", "NoSchedule"), Taint("soft", "", "PreferNoSchedule"))
    )
    overbooked = a_record(allocated(a_share("card-1", 20_000)))
    texts = read(rendered(a_plan(on=[holding(replace(entry, facts=facts), overbooked)]))).texts
    assert {"not ready", "unhealthy card", "overbooked", "taint gpu=yes", "3.5 GiB overbooked"} <= set(texts)
    assert "taint soft" not in texts


def test_groups_of_a_large_cluster_start_closed() -> None:
    few, many = (a_plan(asking(), on=[a_node(f"n{at:03}") for at in range(count)]) for count in (5, 80))
    assert all("open" in attrs for attrs in read(rendered(few)).with_class("group"))
    planned, others = read(rendered(many)).with_class("group")
    assert "open" in planned
    assert "open" not in others


def test_a_thousand_nodes_make_a_page_of_reasonable_size() -> None:
    nodes = [
        holding(a_node(f"n{at}", *(a_device(index=index) for index in range(8))), a_record()) for at in range(1000)
    ]
    assert len(rendered(a_plan(on=nodes))) < 4_000_000


@pytest.mark.parametrize(
    ("unit", "amount", "words"),
    [
        (SegmentUnit.MEMORY, 0, "0 MiB"),
        (SegmentUnit.MEMORY, 1023, "1023 MiB"),
        (SegmentUnit.MEMORY, 1024, "1 GiB"),
        (SegmentUnit.MEMORY, 1536, "1.5 GiB"),
        (SegmentUnit.MEMORY, 3 << 20, "3.0 TiB"),
        (SegmentUnit.CORES, 2, "2 cores"),
        (SegmentUnit.SLOTS, 1, "1 slot"),
    ],
)
def test_amounts_are_told_as_people_say_them(unit: SegmentUnit, amount: int, words: str) -> None:
    assert amount_words(unit, amount) == words


def test_a_page_of_answers_tells_refusals_notes_and_what_was_left_out() -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: front}\n"
    documents = manifests.read(f"{service}---\n{service}", source="job.yaml")
    plan = a_plan(asking(), asking(100_000, name="big"))
    noted = replace(plan, pods=tuple(replace(pod, notes=("the upstream may differ",)) for pod in plan.pods))
    found = page.answered(answers_of(noted), page.Heading(), submitted=workloads.read(documents))
    texts = read(found).texts
    assert {"default/big", "job.yaml line 1", "Service front is left out: written again further down"} <= set(texts)
    assert not any("runs no pods" in text for text in texts)
    assert {"default/p and 1 more pod", "the upstream may differ"} <= set(texts)
    assert any("asked 100,000 MiB" in text for text in texts)
