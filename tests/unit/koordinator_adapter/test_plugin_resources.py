"""Cambricon's and MetaX's cards between HAMi's words and Koordinator's, with the amounts for their device plugins."""

from __future__ import annotations

import pytest

from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.core.translation.model import Fidelity
from koordinator_adapter.core.translation.vocabulary import HINT, ISOLATION, VENDOR_LABEL
from tests.unit.koordinator_adapter.written import Raw, about, limits_of, moved, pod, refused, stays, translated

COUNT, UNITS, CORES = "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"
SGPU, VMEMORY, VCORE = "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"

MLU = {COUNT: 1, CORES: 30, UNITS: 24}
MLU_UNDER_KOORDINATOR = {SHARED: 1, CORE: 30, MEMORY: "6Gi", CORES: 30, UNITS: 24}
METAX = {SGPU: 1, VMEMORY: "6Gi", VCORE: 30}
METAX_UNDER_KOORDINATOR = {SHARED: 1, CORE: 30, MEMORY: "6Gi", SGPU: 1}
BOTH = pytest.mark.parametrize(
    ("hamis", "koordinators", "vendor"),
    [(MLU, MLU_UNDER_KOORDINATOR, "cambricon"), (METAX, METAX_UNDER_KOORDINATOR, "metax")],
)


def under_koordinator(limits: dict[str, object], **more: object) -> Raw:
    """A pod of Koordinator's scheduler."""
    return pod(limits, schedulerName="koord-scheduler", **more)  # type: ignore[arg-type]


@BOTH
def test_a_slice_is_asked_for_twice_under_koordinator(
    hamis: dict[str, object], koordinators: dict[str, object], vendor: str
) -> None:
    there = moved(pod(hamis), "koordinator")
    assert dict(limits_of(there)) == koordinators
    assert there["spec"]["nodeSelector"] == {VENDOR_LABEL: vendor}
    assert there["spec"]["schedulerName"] == "koord-scheduler"
    assert "labels" not in there["metadata"]
    assert translated(there, "koordinator").edits == ()
    back = moved(there, "hami")
    assert dict(limits_of(back)) == hamis
    assert "nodeSelector" not in back["spec"]
    assert translated(there, "hami").fidelity is Fidelity.LOSSLESS


@BOTH
def test_koordinators_own_pods_stay_as_its_manual_has_them(
    hamis: dict[str, object], koordinators: dict[str, object], vendor: str
) -> None:
    assert stays(under_koordinator(koordinators), "koordinator")
    assert dict(limits_of(moved(under_koordinator(koordinators), "hami"))) == hamis


@BOTH
def test_what_koordinators_scheduler_needs_is_reported(
    hamis: dict[str, object], koordinators: dict[str, object], vendor: str
) -> None:
    (finding,) = translated(pod(hamis), "koordinator").findings
    assert finding.fidelity is Fidelity.LOSSY
    assert "DevicePluginAdaption=true" in finding.remedy
    assert ("1.8.0" in finding.words) is (vendor == "metax")


@BOTH
def test_volcano_has_no_names_for_them(hamis: dict[str, object], koordinators: dict[str, object], vendor: str) -> None:
    for raw in (pod(hamis), under_koordinator(koordinators)):
        assert refused(raw, "volcano") in {COUNT, SGPU}


def test_a_label_of_nodes_says_whose_card_is_meant_as_well() -> None:
    raw = under_koordinator({SHARED: 1, CORE: 30, MEMORY: "6Gi"}, nodeSelector={VENDOR_LABEL: "metax"})
    assert dict(limits_of(moved(raw, "hami"))) == METAX


def test_requests_change_as_limits_do() -> None:
    raw = pod(MLU)
    raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 1, **MLU}
    resources = moved(raw, "koordinator")["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": 1, **MLU_UNDER_KOORDINATOR}


def test_all_of_a_metax_card_is_a_percentage_under_koordinator() -> None:
    there = moved(pod({SGPU: 1}), "koordinator")
    assert dict(limits_of(there)) == {SHARED: 1, RATIO: 100, CORE: 100, SGPU: 1}
    assert dict(limits_of(moved(there, "hami"))) == {SGPU: 1}


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({**MLU, COUNT: 2}, {}),
        ({**METAX, SGPU: 2}, {}),
        ({COUNT: 1}, {}),
        ({**METAX, VCORE: 0}, {}),
        (METAX, {"metax-tech.com/use-gpuuuid": "a"}),
        (MLU, {"cambricon.com/nouse-gpuuuid": "a"}),
    ],
)
def test_what_koordinator_cannot_be_asked_for_is_refused(
    limits: dict[str, object], annotations: dict[str, str]
) -> None:
    assert refused(pod(limits, annotations=annotations), "koordinator") in {COUNT, SGPU}


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({SHARED: 1, CORE: 30, RATIO: 50, SGPU: 1}, RATIO),
        ({SHARED: 1, CORE: 30, MEMORY: "100Mi", CORES: 30, UNITS: 1}, MEMORY),
    ],
)
def test_what_hami_has_no_amount_for_is_refused(limits: dict[str, object], what: str) -> None:
    assert refused(under_koordinator(limits), "hami") == what


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({**MLU_UNDER_KOORDINATOR, UNITS: 12}, UNITS),
        ({**MLU_UNDER_KOORDINATOR, CORES: 20}, CORES),
        ({SHARED: 1, CORE: 30, MEMORY: "300Mi", CORES: 30}, MEMORY),
        ({SHARED: 1, MEMORY: "6Gi", SGPU: 1}, CORE),
    ],
)
def test_amounts_that_contradict_each_other_or_are_not_said_are_reported(limits: dict[str, object], what: str) -> None:
    assert what in about(translated(under_koordinator(limits), "hami"), Fidelity.LOSSY)


def test_wishes_of_one_scheduler_are_not_lost_in_silence() -> None:
    hinted = under_koordinator(METAX_UNDER_KOORDINATOR, annotations={HINT: '{"gpu":{"exclusivePolicy":"PCIeLevel"}}'})
    assert refused(hinted, "hami") == HINT
    labelled = under_koordinator(METAX_UNDER_KOORDINATOR, labels={ISOLATION: "x"})
    assert about(translated(labelled, "hami"), Fidelity.LOSSY) == [ISOLATION]
    assert "labels" not in moved(labelled, "hami")["metadata"]
    online = pod(METAX, annotations={"metax-tech.com/sgpu-app-class": "online"})
    assert "metax-tech.com/sgpu-app-class" in about(translated(online, "koordinator"), Fidelity.LOSSY)
    quality = pod(METAX, annotations={"metax-tech.com/sgpu-qos-policy": "fixed-share"})
    assert moved(quality, "koordinator")["metadata"]["annotations"] == quality["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("limits", "name"), [({"hygon.com/dcunum": 1}, "dcu.com/gpu"), ({"amd.com/gpu": 1}, "amd.com")]
)
def test_vendors_whose_cards_koordinator_knows_whole_are_refused_with_that_name(
    limits: dict[str, object], name: str
) -> None:
    assert name in translated(pod(limits), "koordinator").findings[0].words
