"""How the devices of each kind of machine are drawn."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.drawings import Drawing, drawings
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeShape
from hami_plugins.output import grids
from hami_plugins.output.page.link_drawings import picture
from neuron_topology.core.hardware.fabric import FabricShape
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.layouts import layout
from neuron_topology.core.nodes import HEALTH_KEY, LINKS_KEY
from neuron_topology.core.vendor import SPEC
from tests.builders import a_record, a_share, allocated
from tests.unit.neuron_topology.nodes import INF2, TRN1, a_neuron_node
from tests.unit.plan.plans import holding

REGISTRY = Registry([SPEC])


def an_entry(kind: str = TRN1, **given: object) -> NodeEntry:
    return NodeBuilder(REGISTRY).entry(a_neuron_node(kind, **given), NodeFacts())  # type: ignore[arg-type]


def holds(entry: NodeEntry, *devices: int, name: str = "job") -> NodeEntry:
    shares = [a_share(entry.ids[device], 0, 2, vendor=SPEC.name) for device in devices]
    return holding(entry, a_record(allocated(*shares), name=name))


def drawn(entry: NodeEntry, *meant: int, ours: tuple[str, ...] = ()) -> Drawing:
    (found,) = drawings(entry, REGISTRY, ours=ours, meant=meant)
    return found


def grid(entry: NodeEntry, *meant: int, ours: tuple[str, ...] = ()) -> str:
    return "\n".join(grids.lines(drawn(entry, *meant, ours=ours)))


@pytest.mark.parametrize("kind", INSTANCE_TYPES.values(), ids=lambda kind: kind.name)
def test_every_device_and_link_of_a_type_is_drawn_once(kind: InstanceType) -> None:
    fabric = kind.fabric
    found = layout(an_entry(kind.name).state.shape)
    if fabric.devices == 1 or fabric.shape is FabricShape.SWITCH:
        assert found is None
        return
    assert found is not None
    assert sorted(spot.position for spot in found.spots) == list(range(fabric.devices))
    assert len({(spot.row, spot.column) for spot in found.spots}) == fabric.devices
    assert sorted((link.one, link.other) for link in found.links) == sorted(fabric.links)


def test_only_the_links_of_a_torus_go_around() -> None:
    wrapping = {
        name: sum(link.wraps for link in found.links)
        for name in ("trn1.32xlarge", "inf2.48xlarge", "inf2.24xlarge", "inf1.24xlarge")
        if (found := layout(an_entry(name).state.shape)) is not None
    }
    assert wrapping == {"trn1.32xlarge": 8, "inf2.48xlarge": 0, "inf2.24xlarge": 0, "inf1.24xlarge": 0}


def test_a_shape_without_these_devices_and_one_without_known_links_are_not_drawn() -> None:
    assert layout(NodeShape(())) is None
    assert layout(an_entry("trn9.32xlarge").state.shape) is None


def test_a_torus_is_a_square_whose_edges_lead_around() -> None:
    entry = holds(holds(an_entry(annotations={HEALTH_KEY: '{"devices": [15], "links": [[4, 5]]}'}), 2, 6), 8, name="x")
    assert grid(entry, 0, 1, 4, 5, ours=("default/job",)) == "\n".join((
        "n, 4x4 torus",
        "    ~      ~      ~      ~",
        "~ [ 0 ]==[ 1 ]--[ 2a]--  3   ~",
        "    #      #      #      |",
        "~ [ 4 ]-/[ 5 ]--[ 6a]--  7   ~",
        "    |      |      |      |",
        "~   8b --  9  -- 10  -- 11   ~",
        "    |      |      |      |",
        "~  12  -- 13  -- 14  -- 15x  ~",
        "    ~      ~      ~      ~",
        "  a default/job: 2,6",
        "  b default/x: 8",
        "  x unhealthy or cordoned",
        "  / links that do not work: 4-5",
    ))  # fmt: skip


def test_a_ring_closes_at_the_side() -> None:
    assert grid(holds(an_entry(INF2), 11, 0), ours=("default/job",)) == "\n".join((
        "n, ring of 12",
        "  [ 0a]--  1  --  2  --  3  --  4  --  5",
        "    #                                  |",
        "  [11a]-- 10  --  9  --  8  --  7  --  6",
        "  a default/job: 0,11, in the order 11,0",
    ))  # fmt: skip


def test_a_long_line_is_folded() -> None:
    told = grid(an_entry("inf1.24xlarge")).splitlines()
    assert told[1:] == [
        "    0  --  1  --  2  --  3  --  4  --  5  --  6  --  7",
        "                                                     |",
        "   15  -- 14  -- 13  -- 12  -- 11  -- 10  --  9  --  8",
    ]


def test_a_machine_wired_in_a_way_of_its_own_lists_the_links_that_rows_have_no_place_for() -> None:
    links = {0: [1, 4], 1: [0, 2], 2: [1, 3], 3: [2, 4], 4: [3, 0]}
    printed = json.dumps(
        [{"neuron_device": at, "nc_count": 2, "memory_size": 0, "connected_to": to} for at, to in links.items()]
    )
    entry = an_entry("", devices=5, cores=2, annotations={LINKS_KEY: printed})
    told = grid(entry)
    assert "ring of 5" in told
    assert "  links that are not drawn: 2-3" in told
    paths = picture(drawn(entry)).strokes
    assert any("Q" in stroke.path for stroke in paths)
    more = {**links, 1: [0, 2, 3], 3: [2, 4, 1]}
    printed = json.dumps(
        [{"neuron_device": at, "nc_count": 2, "memory_size": 0, "connected_to": to} for at, to in more.items()]
    )
    assert "n, 5 devices" in grid(an_entry("", devices=5, cores=2, annotations={LINKS_KEY: printed}))


def test_a_device_of_several_pods_has_a_sign_of_its_own_and_pods_beyond_the_alphabet_share_one() -> None:
    entry = an_entry("trn2.48xlarge")
    for at in range(27):
        entry = holds(entry, at // 2, name=f"p{at:02d}")
    told = grid(entry)
    assert "  0+" in told
    assert "  + default/p25: 12" in told
    assert "\n  x " not in told


def test_what_holds_devices_that_are_gone_is_left_out() -> None:
    record = a_record(allocated(a_share("gone", 0, 2, vendor=SPEC.name)), name="ghost")
    entry = an_entry()
    ghost = replace(entry, pods=(record,))
    assert drawn(ghost).holders == ()


def test_a_picture_says_all_that_it_shows() -> None:
    entry = holds(an_entry(annotations={HEALTH_KEY: '{"devices": [15], "links": [[4, 5], [0, 12]]}'}), 2, 6)
    shown = picture(drawn(entry, 0, 1, 4, 5, ours=("default/job",)))
    assert shown.label == (
        "4x4 torus of n; default/job holds 2,6; free 0-1,3-5,7-14; unhealthy 15; the nearest set 0-1,4-5; "
        "links that do not work 0-12, 4-5"
    )
    assert len(shown.discs) == 16
    assert [disc.css for disc in shown.discs[:4]] == ["f meant", "f meant", "p", "f"]
    assert shown.discs[15].title == "device 15: unhealthy or cordoned"
    links = {stroke.css: stroke.path.count("M") for stroke in shown.strokes}
    assert (links["dead"], links["dead end"]) == (1, 2)
    assert sum(links.values()) == 32 + 8
    assert all(0 <= disc.x <= shown.width and 0 <= disc.y <= shown.height for disc in shown.discs)
