"""The agent puts in force what is booked for a running container, and what is asked of it below that."""

from __future__ import annotations

from hami_plugins.kube import paths
from tests.integration.volcano_vgpu.machines import Machine, container, pod
from tests.integration.volcano_vgpu.monitor.trees import put
from tests.shared_regions import GIB, Booked, Made, Slot, uuid
from tests.waiting import wait_for
from volcano_vgpu.core.monitor.regions import Region
from volcano_vgpu.monitor.files import read

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
IN_FORCE, REFUSED = "hami-plugins.io/memory-in-force", "hami-plugins.io/resize-refused"


def test_a_running_container_grows_and_shrinks(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 10)
        uid = node.create(pod("one", container(memory=8192), ids=f"{uuid(1)},NVIDIA,8192,0:"))
        node.started(uid)
        made = Made(uuids=(uuid(1),), limits=(8 * GIB,), slots=(Slot(booked=[Booked(data=2 * GIB)]),))
        directory = put(node.root / "hook" / "vgpu" / "containers", made, whose=f"{uid}_main").parent

        def limit() -> int:
            content = read(directory)
            assert isinstance(content, Region)
            return content.header.memory_limits[0] // GIB

        def ask(**annotations: str) -> None:
            keys = {"ask": ASK, "booked": BOOKED}
            body = {"metadata": {"annotations": {keys[name]: text for name, text in annotations.items()}}}
            node.api.merge_patch(paths.pod("default", "one"), body)

        def annotation(key: str) -> str:
            return str(node.pod("one")["metadata"]["annotations"].get(key, ""))

        ask(ask="main=16384", booked="main=16384")
        wait_for(lambda: limit() == 16, "the region has the booked limit")
        assert annotation(IN_FORCE) == "main=16384"
        ask(ask="main=4096")
        wait_for(lambda: annotation(IN_FORCE) == "main=4096", "the smaller limit is declared")
        assert limit() == 4
        ask(ask="main=1024", booked="main=4096")
        wait_for(lambda: "2048 MiB are in use now" in annotation(REFUSED), "less than is used is refused")
        assert limit() == 4
