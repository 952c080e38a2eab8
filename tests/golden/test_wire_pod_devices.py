"""HAMi's pod assignment text against the vectors of both HAMi references."""

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import pod_devices
from hami_plugins.wire.pod_devices import AssignedContainers, AssignedDevice
from tests.golden import cases

DEVIATIONS = {
    "trailing container": "every text ends in ';', so HAMi finds one container more than were written; we find as many",
    "growing text": "HAMi's node agent re-encodes that extra container and so adds a ';' each round; we add none",
    "error text": "the vectors' error texts are HAMi's; ours say which device and which field",
}


def assigned(containers: list[list[dict[str, Any]]]) -> AssignedContainers:
    return tuple(
        tuple(AssignedDevice(DeviceId(d["uuid"]), d["type"], MiB(d["mem"]), CoreShare(d["cores"])) for d in container)
        for container in containers
    )


def without_the_extra_container(expected: list[list[dict[str, Any]]]) -> AssignedContainers:
    assert expected[-1] == []
    return assigned(expected[:-1])


def check_decode(case: cases.Case) -> None:
    if case.refused:
        with pytest.raises(WireError):
            pod_devices.decode(case.id, case.given["text"])
    elif case.given.get("level") == "container":
        assert list(pod_devices.decode(case.id, case.given["text"])) == case.expect["devices"]
    else:
        read = pod_devices.decode(case.id, case.given["text"])
        assert read == without_the_extra_container(case.expect["containers"])


@cases.each("hami-core/pod-devices-decode.yaml")
def test_assignment_is_read_as_its_vector_says(case: cases.Case) -> None:
    check_decode(case)


@cases.each("hami-core/pod-devices-encode.yaml")
def test_assignment_is_written_as_its_vector_says(case: cases.Case) -> None:
    text = pod_devices.encode(assigned(case.given["containers"]))
    # The text of one container is the pod's without the separator.
    assert (text.removesuffix(";") if case.given["level"] == "container" else text) == case.expect["text"]


@cases.each("hami-core/pod-devices-consume.yaml")
def test_assignment_stays_readable_while_containers_are_served(case: cases.Case) -> None:
    before = pod_devices.decode(case.id, case.given["text"])
    served = next(at for at, container in enumerate(before) if container)
    after = pod_devices.decode(case.id, case.expect["text"])
    ours = (*before[:served], (), *before[served + 1 :])
    assert after[: len(ours)] == ours
    assert not any(after[len(ours) :])
    assert any(after) is case.expect["pending"]
    assert len(pod_devices.encode(ours)) < len(case.expect["text"])


@cases.each("hami-core/pod-annotations-decode.yaml")
def test_assignments_of_a_pod_are_read_as_their_vector_says(case: cases.Case) -> None:
    annotations, checklist = case.given["annotations"], case.given["checklist"]

    def read() -> dict[str, AssignedContainers]:
        return {
            vendor: pod_devices.decode(key, annotations[key]) for vendor, key in checklist.items() if key in annotations
        }

    if case.refused:
        with pytest.raises(WireError):
            read()
    else:
        expected = case.expect["pod_devices"]
        assert read() == {vendor: without_the_extra_container(found) for vendor, found in expected.items()}
