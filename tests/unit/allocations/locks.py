"""Nodes with locks, pods on their way to a device plugin, and a clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hami_plugins.allocations.lock_demand import LockDemand, LockKey, LockPod, PodProgress, ReleaseReason
from hami_plugins.allocations.lock_steps import Held, LockEnd, LockRelease, Step, Take
from hami_plugins.allocations.node_locks import NodeLocks
from hami_plugins.model.units import NodeName, PodUid

SHARED, MLU = "hami.io/mutex.lock", "cambricon.com/dsmlu.lock"
KEYS = (LockKey(SHARED), LockKey(MLU, named=False, expiry=120.0))
ONE, OTHER, BOTH = LockDemand((SHARED,)), LockDemand((MLU,)), LockDemand((MLU, SHARED))
N1, N2 = NodeName("n1"), NodeName("n2")
NOON = datetime(2026, 8, 14, 12, tzinfo=UTC)


def a_pod(name: str = "p", *, uid: str = "") -> LockPod:
    """A pod of the namespace ``team``."""
    return LockPod(PodUid(uid or f"uid-{name}"), "team", name)


def progress(  # what a watch shows of a pod
    pod: LockPod,
    node: NodeName | None = N1,
    bind_phase: str = "allocating",
    *,
    phase: str = "Pending",
    ours: bool = True,
    unserved: frozenset[str] = frozenset(),
) -> PodProgress:
    """A pod that is bound to the first node, whose plugin has not answered yet."""
    return PodProgress(pod=pod, ours=ours, node=node, phase=phase, bind_phase=bind_phase, unserved=unserved)


def a_lock(pod: LockPod | None = None, *, age: float = 0.0, at: datetime = NOON) -> str:
    """The text of a lock as HAMi writes it; without a pod the time alone."""
    stamp = (at - timedelta(seconds=age)).isoformat(timespec="seconds").replace("+00:00", "Z")
    return stamp if pod is None else f"{stamp},{pod.namespace},{pod.name}"


A, B, C, THEIRS = a_pod("a"), a_pod("b"), a_pod("c"), a_pod("theirs")


class LockSite:
    """The locks of a cluster whose nodes a test writes itself."""

    def __init__(self, *, answer: float = 20.0, skew: float = 0.0) -> None:
        self.locks = NodeLocks(KEYS, answer=answer)
        self.now = 1_000.0
        self.skew = skew
        self.nodes: dict[NodeName, tuple[int, dict[str, str]]] = {}

    @property
    def wall(self) -> datetime:
        """The time as locks are written with it: noon when the clock shows 1,000."""
        return NOON + timedelta(seconds=self.now - 1_000.0 + self.skew)

    def node(self, name: NodeName = N1, *, version: int = 0, listed: bool = False, **locks: str | None) -> bool:
        """The node as another client leaves it: ``shared`` and ``mlu`` are its locks."""
        at, annotations = self.nodes.get(name, (0, {}))
        for key, text in {SHARED if each == "shared" else MLU: text for each, text in locks.items()}.items():
            if text is None:
                annotations.pop(key, None)
            else:
                annotations[key] = text
        self.nodes[name] = (max(at + 1, version), annotations)
        return self.show(name, listed=listed)

    def show(self, name: NodeName = N1, *, version: int | None = None, listed: bool = False) -> bool:
        """The watch shows the node, or a ``version`` of it that is not the latest."""
        latest, annotations = self.nodes[name]
        shown = latest if version is None else version
        return self.locks.see_node(name, str(shown), annotations, now=self.now, wall=self.wall, listed=listed)

    def text(self, key: str = SHARED, name: NodeName = N1) -> str | None:
        """A lock as it is on the node."""
        return self.nodes[name][1].get(key)

    def enter(self, pod: LockPod, demand: LockDemand = ONE, node: NodeName = N1) -> None:
        """A call begins to wait."""
        self.locks.enter(node, pod, demand)

    def decide(self, pod: LockPod, node: NodeName = N1) -> Step:
        """The next step of that call."""
        return self.locks.decide(node, pod.uid, self.now, self.wall)

    def ask(self, pod: LockPod, demand: LockDemand = ONE, node: NodeName = N1) -> Step:
        """A call begins to wait; what it has to do."""
        self.enter(pod, demand, node)
        return self.decide(pod, node)

    def write(self, step: Take | LockRelease, node: NodeName = N1) -> bool:
        """The API server carries a step out if the node is still what it was; whether it did."""
        latest, annotations = self.nodes[node]
        if str(latest) != step.version:
            return False
        if isinstance(step, Take):
            annotations.update(step.texts)
        else:
            for key in step.keys:
                annotations.pop(key, None)
        self.nodes[node] = (latest + 1, annotations)
        self.show(node)
        return True

    def take(self, pod: LockPod, demand: LockDemand = ONE, node: NodeName = N1) -> Take:
        """The pod gets its locks; what was written."""
        step = self.ask(pod, demand, node)
        assert isinstance(step, Take), step
        assert self.write(step, node)
        assert self.decide(pod, node) == Held()
        self.leave(pod, node)
        return step

    def leave(self, pod: LockPod, node: NodeName = N1) -> None:
        """The call waits no longer."""
        self.locks.leave(node, pod.uid, self.now)

    def show_pod(self, seen: PodProgress) -> frozenset[NodeName]:
        """The watch shows a pod."""
        return self.locks.see_pod(seen, self.now)

    def release(self, node: NodeName = N1) -> LockRelease | None:
        """What is to be removed now."""
        return self.locks.release(node, self.now)

    def after(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def ended(self) -> list[LockEnd]:
        """What ended since the last look."""
        return list(self.locks.ended())

    def reasons(self) -> list[ReleaseReason]:
        """Why it ended."""
        return [each.reason for each in self.ended()]
