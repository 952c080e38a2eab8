"""Changes with which Volcano would enqueue a gang: which are proposed, in which order, and their effect."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.model.cluster import ClusterSnapshot, PodGroup, Queue
from hami_plugins.model.quantity import NANO
from hami_plugins.queueing.queues import QueueShortage
from hami_plugins.suggest import enqueue
from hami_plugins.suggest.enqueue import InTheWay, LeftOut, LoweredGuarantee, RaisedCapability, Shrunk
from tests.builders import a_container, a_pod
from tests.unit.queueing.test_queues import GPU, a_cluster, gpus, held

CPU = "cpu"


def a_lack(missing: float = 2, *, queue: str = "team", resource: str = GPU, by_weight: bool = False) -> QueueShortage:
    return QueueShortage(resource, int(missing * NANO), 0, 10 * NANO, queue, by_weight=by_weight)


def a_holder(name: str = "default/g", takes: int = 4, *, never: bool = False, runs: bool = False) -> InTheWay:
    return InTheWay(group=name, never=never, runs=runs, takes=tuple(gpus(takes).items()), part=takes / 10)


def a_snapshot(**about: object) -> ClusterSnapshot:
    return a_cluster(**{"queues": {"team": Queue(name="team")}, **about})  # type: ignore[arg-type]


def proposed(
    snapshot: ClusterSnapshot, *holders: InTheWay, shortages: tuple[QueueShortage, ...] = ()
) -> list[tuple[object, ...]]:
    return [each.changes for each in enqueue.proposals(snapshot, shortages or (a_lack(),), holders)]


class TestProposals:
    def test_what_loses_nothing_comes_first_and_who_runs_last(self) -> None:
        never = a_holder("default/never", never=True)
        waits, runs = a_holder("default/waits"), a_holder("default/runs", runs=True)
        capped = a_snapshot(queues={"team": Queue(name="team", capability=gpus(10))})
        found = proposed(capped, runs, waits, never)
        kinds = [(type(each[0]).__name__, len(each)) for each in found]
        assert kinds[:3] == [("LeftOut", 1), ("Shrunk", 1), ("Shrunk", 1)]
        assert found[0] == (LeftOut(group="default/never", never=True, runs=False),)
        assert found[3] == (RaisedCapability(queue="team", resource=GPU, before=10 * NANO, after=12 * NANO),)
        assert found[-1] == (LeftOut(group="default/runs", never=False, runs=True),)

    def test_a_group_that_takes_too_little_is_not_proposed_alone(self) -> None:
        assert proposed(a_snapshot(), a_holder(takes=1)) == []

    def test_several_that_are_enough_together_are(self) -> None:
        one, two, three = (a_holder(f"default/{at}", 1, never=True) for at in range(3))
        (changes,) = proposed(a_snapshot(), one, two, three)
        assert [change.group for change in changes if isinstance(change, LeftOut)] == ["default/0", "default/1"]

    def test_so_many_go_as_it_takes(self) -> None:
        four = [a_holder(f"default/{at}", 1, never=True) for at in range(4)]
        (changes,) = proposed(a_snapshot(), *four, shortages=(a_lack(3),))
        assert len(changes) == 3
        assert proposed(a_snapshot(), *four, shortages=(a_lack(5),)) == []

    def test_who_runs_does_not_shrink_and_nobody_shrinks_to_nothing(self) -> None:
        assert proposed(a_snapshot(), a_holder(takes=4, runs=True)) == [
            (LeftOut(group="default/g", never=False, runs=True),)
        ]
        assert proposed(a_snapshot(), a_holder(takes=2, never=True)) == [
            (LeftOut(group="default/g", never=True, runs=False),)
        ]

    def test_devices_are_whole_and_other_amounts_are_not(self) -> None:
        shrunk = next(each for each in proposed(a_snapshot(), a_holder(), shortages=(a_lack(1.5),)) if len(each) == 1)
        assert shrunk == (Shrunk(group="default/g", resource=GPU, before=4 * NANO, after=2 * NANO),)
        capped = a_snapshot(queues={"team": Queue(name="team", capability={CPU: 2 * NANO})})
        (raised,) = proposed(capped, shortages=(a_lack(0.5, resource=CPU),))
        assert raised == (RaisedCapability(queue="team", resource=CPU, before=2 * NANO, after=2_500_000_000),)

    def test_a_guarantee_is_lowered_by_what_is_missing_if_it_is_so_large(self) -> None:
        queues = {
            "team": Queue(name="team", guarantee=gpus(9)),
            "large": Queue(name="large", guarantee=gpus(3)),
            "small": Queue(name="small", guarantee=gpus(1)),
        }
        assert proposed(a_snapshot(queues=queues)) == [
            (LoweredGuarantee(queue="large", resource=GPU, before=3 * NANO, after=NANO),)
        ]

    def test_no_queue_changes_help_against_the_clusters_limit_or_a_share(self) -> None:
        queues = {
            "team": Queue(name="team", capability=gpus(9)),
            "large": Queue(name="large", guarantee=gpus(3)),
        }
        assert proposed(a_snapshot(queues=queues), shortages=(a_lack(queue=""),)) == []
        assert proposed(a_snapshot(queues=queues), shortages=(a_lack(by_weight=True),)) == []


class TestApplied:
    def test_a_group_goes_with_its_pods_wherever_they_are(self) -> None:
        waits = replace(a_pod(a_container({})), annotations={"scheduling.k8s.io/group-name": "g"})
        other = replace(waits, namespace="elsewhere")
        groups = {name: PodGroup(namespace=name.partition("/")[0], name="g") for name in ("default/g", "elsewhere/g")}
        snapshot = a_snapshot(pod_groups=groups, pending=(waits, other))
        snapshot = replace(snapshot, nodes=(replace(snapshot.nodes[0], pods=(held(2), held(1, group="h"))),))
        after = enqueue.applied(snapshot, (LeftOut(group="default/g", never=False, runs=True),))
        assert [record.group for record in after.nodes[0].pods] == ["h"]
        assert after.pending == (other,)
        assert after.pod_groups.keys() == {"elsewhere/g"}

    def test_a_group_asks_for_less(self) -> None:
        group = PodGroup(namespace="default", name="g", min_resources={**gpus(4), CPU: NANO})
        shrunk = Shrunk(group="default/g", resource=GPU, before=4 * NANO, after=NANO)
        after = enqueue.applied(a_snapshot(pod_groups={"default/g": group}), (shrunk,))
        assert after.pod_groups["default/g"].min_resources == {**gpus(1), CPU: NANO}

    def test_queues_change(self) -> None:
        changes = (
            RaisedCapability(queue="team", resource=GPU, before=NANO, after=2 * NANO),
            LoweredGuarantee(queue="team", resource=CPU, before=NANO, after=0),
        )
        queue = enqueue.applied(a_snapshot(), changes).queues["team"]
        assert (queue.capability, queue.guarantee) == (gpus(2), {CPU: 0})
