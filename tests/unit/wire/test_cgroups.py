"""The owner of a process, by its control groups."""

from __future__ import annotations

import pytest

from hami_plugins.model.units import PodUid
from hami_plugins.wire.cgroups import ProcessOwner, owner_of

POD = PodUid("0a1b2c3d-0000-4000-8000-00000000000a")
ID = "c" * 64


@pytest.mark.parametrize(
    "text",
    [
        f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
        f"0::/kubepods/burstable/pod{POD}/{ID}\n",
        f"12:cpu:/kubepods/pod{POD}/{ID}\n3:memory:/kubepods/pod{POD}/{ID}\n",
    ],
    ids=["systemd", "cgroupfs", "version 1"],
)
def test_a_process_of_a_container_has_a_pod_and_a_container(text: str) -> None:
    assert owner_of(text) == ProcessOwner(frozenset({POD}), ID)


def test_a_process_of_the_host_has_neither() -> None:
    assert owner_of("0::/system.slice/sshd.service\n") == ProcessOwner(frozenset(), "")


def test_a_longer_number_is_not_a_container() -> None:
    assert owner_of(f"0::/kubepods/pod{POD}/{ID}ab\n").container_id == ""
