"""What a lock on a node means to a pod that needs it, against the vectors."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.lock_demand import LockDemand, LockKey, LockPod, lock_keys
from hami_plugins.allocations.lock_steps import Foreign, Held, Inspect, LockRefused, ReadNode, Step, Take
from hami_plugins.allocations.node_locks import NodeLocks
from hami_plugins.model.units import PodUid
from tests.golden import cases, notation
from tests.unit.allocations.locks import MLU, N1, NOON, SHARED, LockSite, a_lock, a_pod, progress

DEVIATIONS = {
    "nodelock-b7": "a lock that another process wrote for the pod is stamped anew, so that it can no longer remove it",
    "lock-002": "the same",
    "lock-009": "a lock without owner is left to the client that wrote it; it can only expire",
    "lock-014": "Cambricon's lock, which names no pod, is removed by the client that wrote it and no other",
    "error text": "the vectors' error texts are HAMi's; ours name the holder, its seconds and what is left of them",
}
SELF, OWNER = LockPod(PodUid("uid-hami"), "hami-ns", "hami"), a_pod("owner")
OWNERS = {
    "self": SELF,
    "same-namespace": LockPod(PodUid("x"), "hami-ns", "other"),
    "other-namespace": OWNER,
    "none": None,
}
OUTCOMES = {"acquired": Take, "contention": Foreign, "error": LockRefused}


def asked(site: LockSite, demand: LockDemand, *, holder: str | None, node: bool = True) -> Step:
    """The message for the pod, once it is known whether the pod that the lock names is alive."""
    step = site.ask(SELF, demand)
    if isinstance(step, Inspect):
        seen = progress(LockPod(PodUid("x"), step.namespace, step.name), ours=False) if holder == "alive" else None
        site.locks.inspected(N1, step, seen)
        step = site.decide(SELF)
    if isinstance(step, ReadNode) and not node:
        site.locks.forget_node(N1, site.now)
        step = site.decide(SELF)
    return step


def a_site(expiry: float, text: str | None, *, key: str = SHARED, node: bool = True) -> LockSite:
    site = LockSite()
    site.locks = NodeLocks([LockKey(SHARED, expiry=expiry), LockKey(MLU, named=False, expiry=120.0)])
    if node:
        site.nodes[N1] = (0, {} if text is None else {key: text})
        site.node()
    return site


@cases.each("hami-core/nodelock.yaml", without=("nodelock-s18-02",))
def test_node_lock_is_taken_as_its_vector_says(case: cases.Case) -> None:
    """The one that is left out is about a pod that cannot be read: ``test_node_locking``."""
    given, lock = case.given, case.given["lock"]
    text = None
    if lock is not None:
        text = lock["raw"] or a_lock(OWNERS[lock["owner"]], age=lock["age_s"])
    site = a_site(given["timeout_s"], text, node=given["node"] == "present")
    holder = (lock or {}).get("holder")
    step = asked(site, LockDemand((SHARED,)), holder=holder, node=given["node"] == "present")
    assert isinstance(step, OUTCOMES[case.expect["outcome"]])
    if isinstance(step, Foreign):
        assert step.left == given["timeout_s"]
    if case.id == "nodelock-b7":
        assert isinstance(step, Take)
        assert step.replaced == (text,)
    if case.id == "nodelock-b4":
        assert isinstance(step, Take)
        assert step.texts[SHARED].endswith(",hami-ns,hami")


def a_text(value: str | None) -> str | None:
    """The text of a vector, whose ages are in seconds."""
    if value is None or not value.startswith("<age "):
        return value
    age, _, owner = value.removeprefix("<age ").partition(" s>")
    return f"{a_lock(age=float(age), at=NOON)}{owner.replace('ns,p', 'hami-ns,hami')}"


LOCKS = cases.of("hami-vendors/lock.yaml")
ACQUIRED = {"contention": (Foreign,), "error": (Foreign, LockRefused)}


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=each.id) for each in LOCKS if each.given.get("op") == "acquire"]
)
def test_the_locks_of_vendors_are_taken_as_their_vectors_say(case: cases.Case) -> None:
    given = case.given
    key = MLU if given["kind"] == "dsmlu" else SHARED
    expiry = 60.0 if "env" in given else 300.0
    site = a_site(expiry, a_text(given["value"]), key=key)
    step = asked(site, LockDemand((key,)), holder="alive" if given.get("owner_exists", True) else None)
    assert isinstance(step, ACQUIRED.get(case.expect["result"], (Take,)))


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=each.id) for each in LOCKS if each.given.get("op") == "release"]
)
def test_the_locks_of_vendors_are_released_as_their_vectors_say(case: cases.Case) -> None:
    given = case.given
    key = MLU if given["kind"] == "dsmlu" else SHARED
    theirs = case.id in {"lock-008", "lock-009", "lock-014"}
    site = a_site(300.0, a_text(given["value"]) if theirs else None, key=key)
    if not theirs:
        site.take(SELF)
        assert site.ask(SELF) == Held()
    site.locks.failed(N1, SELF.uid, site.now)
    assert (site.release() is None) is theirs
    assert case.expect["result"] == ("kept" if case.id == "lock-008" else "released")


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=each.id) for each in LOCKS if each.given["kind"] == "backend-lock"]
)
def test_every_vendor_has_the_lock_of_its_vector(case: cases.Case) -> None:
    keys = [each.key for each in lock_keys([notation.vendor(case.given["backend"])])]
    assert keys == [key for key in (case.expect["lock"],) if key]
