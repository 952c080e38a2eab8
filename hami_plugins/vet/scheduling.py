"""HP50x: pods that the scheduler they need will not look at, and words of several vendors in one pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hami_plugins.engine.mutate import DEFAULT_SCHEDULER
from hami_plugins.inputs.vocabulary import speaks
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import nvidia
from hami_plugins.vet import facts
from hami_plugins.vet.context import Context, each_pod, each_request, where
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, Subject
from hami_plugins.wire import allocator_mark

IGNORE_LABEL: Final = "hami.io/webhook"
IGNORE: Final = "ignore"


def vendors_in_container(subject: Subject, context: Context) -> Iterator[Violation]:
    """Containers that ask several vendors."""
    for pod in subject.pods:
        for container in pod.containers:
            asked = context.asked_of(container)
            if len(asked) > 1 and len({spec.dialect for spec in asked}) == 1 and not _together(asked, context):
                second = next(amount for name in asked[1].resources.all() if (amount := container.amount(name)))
                yield Violation(
                    second.path,
                    f"{where(container, pod)} asks for {_titles(asked)} at once",
                    "split the work into pods, one vendor each",
                )


def vendors_in_pod(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods whose containers ask different vendors."""
    asked = context.asked_by(pod)
    if len(asked) < 2 or len({spec.dialect for spec in asked}) > 1 or _together(asked, context):
        return
    if any(len(context.asked_of(container)) > 1 for container in pod.containers):
        return
    second = next(c for c in pod.containers if any(spec.name == asked[1].name for spec in context.asked_of(c)))
    amount = next(amount for name in asked[1].resources.all() if (amount := second.amount(name)))
    yield Violation(
        amount.path,
        f"{where(second, pod)} asks for {asked[1].title}, other containers of the pod for {asked[0].title}; only a "
        "node with both takes it",
        "split the work into pods, one vendor each",
    )


def mixed_words(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods in HAMi's and in Volcano's words."""
    hami = context.in_hami_words(pod)
    if not hami or not context.in_volcano_words(pod):
        return
    container, amount = next(
        (container, amount)
        for container in pod.containers
        for name, amount in container.amounts.items()
        if (owner := context.registry.owner_of(name)) is not None and owner.dialect is Dialect.VOLCANO
    )
    yield Violation(
        amount.path,
        f"{where(container, pod)}: {amount.resource}={amount.text} is for Volcano, while the pod also asks for "
        f"{hami[0].resources.count} of HAMi; one scheduler places a pod, and does not see the other's devices",
        "use the resources of one of the two",
    )


def wrong_scheduler(pod: PodView, context: Context) -> Iterator[Violation]:
    """HAMi's words with a scheduler that does not know them."""
    if speaks(Dialect.KOORDINATOR, context.asked_by(pod)):
        return
    asked = context.in_hami_words(pod)
    webhook = context.settings.rules.webhook
    mine = {"", webhook.scheduler} | ({DEFAULT_SCHEDULER} if webhook.takes_over_default else set())
    if not asked or context.in_volcano_words(pod) or pod.scheduler in mine:
        return
    named = VOLCANO if pod.scheduler in context.settings.volcano else pod.scheduler
    asked = tuple(spec for spec in asked if named not in spec.schedulers)
    if not asked:
        return
    partly = any(
        container.amount(name) is not None
        for container in pod.containers
        for spec in asked
        for name in spec.resources.all()
        if name != spec.resources.count
    )
    if named == VOLCANO and not partly and {spec.resources.count for spec in asked} == {nvidia.RESOURCES.count}:
        return  # whole cards of NVIDIA's device plugin, which Volcano counts as any other resource
    yield Violation(
        pod.scheduler_path,
        f"{_prefix(pod)}schedulerName={pod.scheduler}: HAMi's webhook leaves pods of other schedulers alone, and this "
        f"one does not read {_parts(asked)}",
        f"drop schedulerName, or write {webhook.scheduler or 'the name of HAMi scheduler'}",
        RewriteFix(pod.scheduler_path, webhook.scheduler) if webhook.scheduler else None,
        severity=VetSeverity.ERROR if partly else None,
    )


def not_for_volcano(pod: PodView, context: Context) -> Iterator[Violation]:
    """Volcano's words with another scheduler."""
    asked = context.in_volcano_words(pod)
    if not asked or pod.scheduler in context.settings.volcano:
        return
    name = min(context.settings.volcano, default=VOLCANO)
    path = pod.scheduler_path if pod.scheduler else pod.of("spec")
    yield Violation(
        path,
        f"{_prefix(pod)}{asked[0].resources.count} is asked for, and "
        + (f"schedulerName is {pod.scheduler}" if pod.scheduler else "there is no schedulerName")
        + "; only Volcano's scheduler reads it",
        f"write schedulerName: {name}",
        RewriteFix(path, name) if pod.scheduler else None,
    )


def unchosen_devices(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Several Neuron devices, but not a whole machine, under Volcano without an allocator."""
    if spec.name != facts.NEURON or pod.scheduler not in context.settings.volcano:
        return
    if context.volcano.neuron:
        return
    if pod.annotations.get(allocator_mark.KEY):
        return
    devices, cores = container.amount(spec.resources.count), container.amount(spec.resources.cores)
    asked = devices or cores
    several = asked.quantity.ceiling if asked is not None and asked.quantity is not None else 0
    most = context.most(spec) if context.hardware is not None else facts.TRAINIUM_SETS[-1]
    if asked is None or several < 2 or (devices is not None and several >= most):
        return
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text}: Volcano counts them and chooses none, so that the "
        "kubelet hands out any, which need not be linked; AWS's scheduler extension is not asked",
        f"run the allocator (hami-plugins allocator run) for {spec.name}, or write schedulerName: my-scheduler, AWS's "
        "scheduler",
    )


def node_named(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods that skip the scheduler."""
    if pod.node and not pod.placed and context.asked_by(pod):
        yield Violation(
            pod.of("spec", "nodeName"),
            f"{_prefix(pod)}nodeName={pod.node}: no scheduler looks at a pod that has a node, so no component "
            "allocates it devices; HAMi's webhook refuses it",
            f"select the node with nodeSelector kubernetes.io/hostname: {pod.node}",
        )


def webhook_ignored(subject: Subject, context: Context) -> Iterator[Violation]:
    """Pods that the webhook does not see."""
    for pod in subject.pods:
        if not context.in_hami_words(pod):
            continue
        if is_unseen(pod.labels):
            yield Violation(
                pod.of("metadata", "labels", IGNORE_LABEL),
                f"{_prefix(pod)}label {IGNORE_LABEL}={IGNORE}: the webhook does not see the pod, so no component "
                "turns its requests into devices",
                "drop the label",
            )
        elif subject.namespace in context.unseen:
            yield Violation(
                ("metadata", "namespace"),
                f"namespace {subject.namespace} has the label {IGNORE_LABEL}={IGNORE}: the webhook does not see the "
                "pods in it",
                "drop the label of the namespace, or use another namespace",
            )


def is_unseen(labels: Mapping[str, str]) -> bool:
    """Whether labels hide a pod or a namespace from the webhook."""
    return labels.get(IGNORE_LABEL) == IGNORE


def _together(specs: Sequence[VendorSpec], context: Context) -> bool:
    """Whether some node of the snapshot has devices of all these vendors."""
    return context.hardware is not None and context.hardware.has_together(specs)


def _titles(specs: Sequence[VendorSpec]) -> str:
    return " and ".join(spec.title for spec in specs)


def _parts(specs: Sequence[VendorSpec]) -> str:
    return " or ".join(specs[0].resources.all()[:2])


def _prefix(pod: PodView) -> str:
    return f"{pod.label}: " if pod.label else ""


RULES: Final = (
    VetRule(
        id="HP501",
        name="vendors-in-container",
        severity=VetSeverity.ERROR,
        summary="A container asks for devices of several vendors.",
        why="Only a node with both kinds of cards could take it, and no image drives both.",
        fix="One vendor per pod.",
        check=vendors_in_container,
    ),
    VetRule(
        id="HP502",
        name="vendors-in-pod",
        severity=VetSeverity.WARNING,
        summary="The containers of a pod ask for devices of different vendors.",
        why="Only a node with both kinds of cards takes it.",
        fix="One vendor per pod.",
        check=each_pod(vendors_in_pod),
    ),
    VetRule(
        id="HP503",
        name="mixed-words",
        severity=VetSeverity.ERROR,
        summary="A pod asks for HAMi's resources and for Volcano's.",
        why="Each of the two schedulers sees only a part of the pod, and both would allocate the same cards.",
        fix="Use one of the two.",
        check=each_pod(mixed_words),
    ),
    VetRule(
        id="HP504",
        name="wrong-scheduler",
        severity=VetSeverity.WARNING,
        summary="A pod asks for HAMi's resources and names a scheduler that does not know them.",
        why="HAMi's webhook leaves such pods alone, so memory and cores are not honoured, or the pod never fits.",
        fix="Leave schedulerName out.",
        check=each_pod(wrong_scheduler),
    ),
    VetRule(
        id="HP505",
        name="not-for-volcano",
        severity=VetSeverity.ERROR,
        summary="A pod asks for Volcano's resources and is not scheduled by Volcano.",
        why="Another scheduler only counts the resource; the node agent then finds no allocation, and no pod starts.",
        fix="Write schedulerName: volcano.",
        check=each_pod(not_for_volcano),
    ),
    VetRule(
        id="HP506",
        name="node-named",
        severity=VetSeverity.ERROR,
        summary="A pod that asks for devices names its node.",
        why="It bypasses the scheduler, so no device is allocated to it.",
        fix="Use a node selector.",
        check=each_pod(node_named),
    ),
    VetRule(
        id="HP507",
        name="webhook-ignored",
        severity=VetSeverity.ERROR,
        summary="A pod that asks for devices is hidden from HAMi's webhook by a label.",
        why="Without the webhook the pod goes to the default scheduler.",
        fix="Drop the label hami.io/webhook.",
        check=webhook_ignored,
    ),
    VetRule(
        id="HP508",
        name="unchosen-devices",
        severity=VetSeverity.WARNING,
        summary="A pod of Volcano asks for several Neuron devices or cores, and no component chooses them.",
        why="Volcano only counts them and asks no extension of AWS: the kubelet hands out any free devices, which need "
        "not be linked, and AWS's plugin refuses several cores.",
        fix="Run the allocator, or use AWS's scheduler.",
        check=each_request(unchosen_devices),
    ),
)
