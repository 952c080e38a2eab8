"""What a namespace may still take."""

from dataclasses import replace

from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.quota import headroom, left_in, used_by, within
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.vendor_names import ResourceNames
from tests import acme, acme_variants
from tests.builders import ACME, CORES, MEMORY, a_device, a_node, a_record, a_share, a_snapshot, allocated

BETA = replace(
    acme.SPEC,
    name=VendorName("Beta"),
    resources=ResourceNames(count="beta.example/card"),
    keys=replace(acme.SPEC.keys, allocated="hami.io/beta-devices-allocated"),
)
REGISTRY = Registry([acme.SPEC, BETA])


def a_quota(**hard: int) -> NamespaceQuota:
    names = {"memory": f"limits.{MEMORY}", "cores": f"limits.{CORES}"}
    return NamespaceQuota(namespace="team", hard={names.get(key, key): amount * NANO for key, amount in hard.items()})


def test_pods_of_the_namespace_add_up_over_nodes_and_vendors() -> None:
    mixed = a_record(allocated(a_share("card-0", 100, 10), a_share("x", 7, 1, vendor="Beta")), namespace="team")
    init = allocated(a_share("card-0", 900), kind=ContainerKind.INIT)
    starting = a_record(init, allocated(a_share("card-0", 50)), namespace="team")
    other = a_record(namespace="other")
    snapshot = a_snapshot(with_pods(a_node("a"), [mixed, other]), with_pods(a_node("b"), [starting]))
    assert used_by(snapshot, "team", REGISTRY) == {ACME: (1_000, 10), "Beta": (7, 1)}
    assert used_by(snapshot, "nobody", REGISTRY) == {}


def test_finished_init_containers_use_nothing_of_a_quota() -> None:
    init = allocated(a_share("card-0", 900), kind=ContainerKind.INIT)
    record = a_record(init, allocated(a_share("card-0", 50)), namespace="team", init_finished=True)
    assert used_by(a_snapshot(with_pods(a_node(), [record])), "team", REGISTRY) == {ACME: (50, 0)}


def test_without_a_quota_everything_is_left() -> None:
    assert headroom(None, {}, REGISTRY) == ()
    assert headroom(a_quota(pods=3), {}, REGISTRY) == ()


def test_what_is_left_is_the_limit_less_what_is_used() -> None:
    found = headroom(a_quota(memory=5_000, cores=200), {ACME: (1_500, 30)}, REGISTRY)
    assert found == ((ACME, Headroom(MiB(3_500), CoreShare(170))),)


def test_a_dimension_without_limit_stays_open() -> None:
    assert headroom(a_quota(memory=10), {}, REGISTRY) == ((ACME, Headroom(MiB(10), None)),)
    assert headroom(a_quota(cores=10), {}, REGISTRY) == ((ACME, Headroom(None, CoreShare(10))),)


def test_a_limit_of_zero_is_a_limit() -> None:
    assert headroom(a_quota(memory=0), {}, REGISTRY) == ((ACME, Headroom(MiB(0), None)),)


def test_a_limit_counts_in_the_vendors_units() -> None:
    spec = replace(
        acme.SPEC,
        requests=replace(acme.SPEC.requests, memory_unit=MiB(256)),
        options=replace(acme.SPEC.options, memory_factor=2),
    )
    ((_, room),) = headroom(a_quota(memory=3), {ACME: (100, 0)}, Registry([spec]))
    assert room.memory == 3 * 512 - 100


def test_an_overdrawn_quota_leaves_less_than_nothing() -> None:
    assert headroom(a_quota(memory=10), {ACME: (30, 0)}, REGISTRY) == ((ACME, Headroom(MiB(-20), None)),)


def test_a_vendor_without_memory_and_cores_has_no_limit() -> None:
    spec = replace(acme.SPEC, resources=ResourceNames(count="acme.example/card"))
    assert headroom(a_quota(memory=1, cores=1), {}, Registry([spec])) == ()


def test_amounts_fit_up_to_the_last_unit() -> None:
    left = {ACME: Headroom(MiB(100), CoreShare(50))}
    assert within({ACME: (100, 50)}, left)
    assert not within({ACME: (101, 0)}, left)
    assert not within({ACME: (0, 51)}, left)


def test_open_dimensions_and_other_vendors_always_fit() -> None:
    left = {ACME: Headroom(None, None)}
    assert within({ACME: (10**9, 10**9), VendorName("Beta"): (10**9, 0)}, left)


def test_asking_nothing_fits_even_an_overdrawn_quota() -> None:
    assert within({ACME: (0, 0)}, {ACME: Headroom(MiB(-1), CoreShare(-1))})


def test_a_vendor_may_count_cores_in_another_unit_than_it_books() -> None:
    halves = acme_variants.fitting(cores_in_quota=lambda device, cores: CoreShare(cores * 100 // device.cores))
    node = with_pods(
        a_node("a", a_device(cores=200)), [a_record(allocated(a_share("card-0", 1, 50), a_share("gone", 1, 7)))]
    )
    assert used_by(a_snapshot(node), "default", Registry([halves])) == {ACME: (2, 32)}


def test_volcanos_resources_are_not_in_hamis_quota() -> None:
    volcano = replace(acme.SPEC, dialect=Dialect.VOLCANO)
    assert headroom(a_quota(memory=5_000, cores=200), {}, Registry([volcano])) == ()


def test_what_is_left_in_a_namespace_is_its_quota_less_its_pods() -> None:
    node = with_pods(a_node(), [a_record(allocated(a_share("card-0", 1_500, 30)), namespace="team")])
    snapshot = a_snapshot(node, quotas={"team": {f"limits.{MEMORY}": 5_000}})
    assert left_in(snapshot, "team", REGISTRY) == {ACME: Headroom(MiB(3_500), None)}
    assert left_in(snapshot, "other", REGISTRY) is None
