"""HP30x: numbers of cards, and parts of them, that a vendor never gives together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.plan import same_card
from hami_plugins.vendors import volcano_releases
from hami_plugins.vet import facts, parsed_requests
from hami_plugins.vet.context import Context, each_pod, each_request, where
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, ResourceEntry

_INSTANCE_LABEL: Final = "node.kubernetes.io/instance-type"


def many_cards(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Counts of virtual cards where different ones are counted."""
    asked, count = _count(spec, container)
    if asked is None or count in facts.USUAL_CARDS or count < 1 or not spec.resources.memory:
        return
    if context.in_cluster(spec) or not same_card.takes_cards(spec, pod.annotations):
        return
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text} {same_card.counted_words(spec, pod.annotations)}, and "
        f"few nodes have {count} cards; that a card can be shared by 10 containers does not make it 10 cards",
        f"write the number of different cards the container needs, usually 1, with {spec.resources.memory} for a part",
    )


def impossible_set(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Counts for which no linked set of cards exists."""
    asked, count = _count(spec, container)
    if asked is None or count < 1:
        return
    sets = facts.SETS_TOGETHER.get(spec.name)
    if spec.name in facts.PAIRED and count > 1 and count % 2:
        wanted = "1 (which means one module of two) or an even number"
    elif sets is not None and count not in sets:
        wanted = ", ".join(map(str, sets[:-1])) + f" or {sets[-1]}"
    else:
        return
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text}: {spec.title} cards are linked in other numbers only",
        f"ask for {wanted}",
    )


def neuron_set(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Numbers of Neuron devices that only some instances can link."""
    asked = container.amount(spec.resources.count) or container.amount(spec.resources.cores)
    request = context.reading(spec, container).request
    if spec.name != facts.NEURON or asked is None or request is None or request.count in facts.TRAINIUM_SETS:
        return
    instances, pools = _selected(pod, _INSTANCE_LABEL), _selected(pod, facts.LINKED_POOL[0])
    if instances and all(name.startswith("inf") for name in instances):
        return
    trainium = any(name.startswith("trn") for name in instances)
    if context.in_cluster(spec) and (spec.replaces or not trainium):
        return  # a vendor of its own knows the sets of each node, and the nodes are there to be asked
    wider = spec.replaces and set(pools) <= {facts.LINKED_POOL[1]}
    if wider and pools:
        return
    devices = f"{request.count} devices" if asked.resource == spec.resources.cores else "which"
    elsewhere = {
        "Inferentia does": (not trainium, f"select inf instances by {_INSTANCE_LABEL}"),
        "linked node pools do": (wider, f"select a node pool with {'='.join(facts.LINKED_POOL)}"),
    }
    but = ", ".join(words for words, (holds, _) in elsewhere.items() if holds)
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text}, {devices} AWS never allocates together on Trainium"
        f"{f' ({but})' if but else ''}",
        ", or ".join(["ask for 1, 4, 8 or 16 devices", *(fix for holds, fix in elsewhere.values() if holds)]),
        severity=VetSeverity.ERROR if trainium and not wider else VetSeverity.WARNING,
    )


def split_of_several(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Parts of several cards where several cards are whole ones."""
    count, cards = _count(spec, container)
    part = _part(spec, container, cards, context)
    if count is None or cards < 2 or part is None:
        return
    what = f"{where(container, pod)}: {part.resource}={part.text} with {cards} cards"
    fix = f"ask for 1 card, or drop {part.resource} and get {cards} whole ones"
    why = facts.WHOLE_WHEN_SEVERAL.get(spec.name)
    if why is not None:
        yield Violation(part.path, f"{what}: several {spec.title} cards are not split, {why}", fix)
    elif _only_for_one(spec, container, context):
        yield Violation(
            part.path,
            f"{what}: the webhook refuses parts of several {spec.title} cards",
            fix,
            severity=VetSeverity.ERROR,
        )


def memory_step(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Amounts between the steps that the webhook takes."""
    steps = facts.MEMORY_STEPS.get(spec.name)
    cards = _count(spec, container)[1]
    asked = container.limits.get(spec.resources.memory)
    if steps is None or cards > 1 or asked is None or asked.quantity is None:
        return
    whole = asked.quantity.whole
    if whole is None or whole in steps or not 0 < whole * spec.memory_factor() <= facts.LARGEST_CARD[spec.name]:
        return
    value = next((step for step in steps if step >= whole), steps[-1])
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text}: the webhook takes {', '.join(map(str, steps))} only",
        f"write {value} ({value * spec.memory_factor()} MiB)",
        RewriteFix(asked.path, str(value)),
    )


def rewritten(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Amounts that the webhook replaces by others."""
    after = context.reading(spec, container).after
    _, cards = _count(spec, container)
    if after is None or (cards > 1 and spec.name in facts.WHOLE_WHEN_SEVERAL):
        return
    for name in spec.resources.all():
        written, becomes = container.limits.get(name), after.limits.get(name)
        if written is None or written.quantity is None or becomes is None or becomes.nano == written.quantity.nano:
            continue
        of_memory = name == spec.resources.memory
        yield Violation(
            written.path,
            f"{where(container, pod)}: the webhook rewrites {name}={written.text} to {becomes}"
            + (f" ({spec.title} memory: {spec.memory_step})" if of_memory else ""),
            f"write {becomes} to see in the manifest what is booked",
            RewriteFix(written.path, str(becomes)),
        )


def init_container(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Devices of init containers and sidecars, to which Volcano gives none."""
    if spec.dialect is not Dialect.VOLCANO or container.kind is ContainerKind.APP:
        return
    asked = next(amount for name in spec.resources.all() if (amount := container.amount(name)) is not None)
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text} in "
        f"{'a sidecar' if container.kind is ContainerKind.SIDECAR else 'an init container'}: Volcano counts it in "
        "the sums of the node and never gives a card for it, and even more than any card has is bound",
        "do the work in an application container, or have volcano-vgpu allocate the cards",
    )


def second_container(pod: PodView, context: Context) -> Iterator[Violation]:
    """Several containers with cards of vendors that know one card per pod."""
    for spec in context.asked_by(pod):
        if spec.name not in facts.ONE_CARD_PER_POD:
            continue
        asking = [
            (container, amount)
            for container in pod.containers
            if container.kind is not ContainerKind.INIT
            and (amount := container.amount(spec.resources.count)) is not None
        ]
        if not any(_takes_whole_cards(spec, container, context) for container, _ in asking):
            continue
        for container, amount in asking[1:]:
            yield Violation(
                amount.path,
                f"{where(container, pod)}: {amount.resource}={amount.text} in a second container: HAMi gives all "
                f"containers of a pod the same {spec.title} card, so a whole card for one leaves none for another",
                "ask for cards in one container of the pod",
            )


def containers_of_plugin(pod: PodView, context: Context) -> Iterator[Violation]:
    """Several containers with cards of Volcano, which its usual node agent matches with no pod."""
    for spec in context.in_volcano_words(pod):
        asking = [
            (container, _first(spec, container))
            for container in pod.containers
            if container.kind is ContainerKind.APP and context.reading(spec, container).request is not None
        ]
        if len(asking) < 2:
            continue
        container, amount = asking[1]
        names = ", ".join(each.name for each, _ in asking)
        yield Violation(
            amount.path,
            f"{where(container, pod)}: {amount.resource}={amount.text}: {len(asking)} containers ask for cards "
            f"({names}), and the node agent finds no pod that matches any one of them: kubelet fails the pod with "
            "UnexpectedAdmissionError",
            "ask for cards in one container, or use volcano-vgpu's agent, which takes such pods (then say --assigner)",
        )


def neuron_cores_ignored(
    spec: VendorSpec, container: ContainerView, pod: PodView, context: Context
) -> Iterator[Violation]:
    """Neuron cores requested together with Neuron devices, unless that is refused anyway."""
    names = spec.resources
    devices = container.amount(names.count)
    cores = container.amount(names.cores) if names.cores else None
    if spec.name != facts.NEURON or context.reading(spec, container).denied:
        return
    if devices is not None and cores is not None:
        yield Violation(
            cores.path,
            f"{where(container, pod)}: {cores.resource}={cores.text} is ignored because of "
            f"{devices.resource}={devices.text}",
            f"keep {devices.resource} for whole devices, or {cores.resource} for cores",
        )


def _takes_whole_cards(spec: VendorSpec, container: ContainerView, context: Context) -> bool:
    request = context.reading(spec, container).request
    return request is not None and request.cores >= facts.WHOLE_CORES.get(spec.name, 100)


def _first(spec: VendorSpec, container: ContainerView) -> ResourceEntry:
    return next(amount for name in spec.resources.all() if (amount := container.amount(name)) is not None)


def _count(spec: VendorSpec, container: ContainerView) -> tuple[ResourceEntry | None, int]:
    """The number of cards asked for, and where; 0 where there is none that means anything."""
    asked = container.amount(spec.resources.count)
    whole = None if asked is None or asked.quantity is None else asked.quantity.whole
    return asked, whole or 0


def _part(spec: VendorSpec, container: ContainerView, cards: int, context: Context) -> ResourceEntry | None:
    """The memory or cores that make a part of each of several cards."""
    names = spec.resources
    after = context.reading(spec, container).after
    memory = container.limits.get(names.memory) if names.memory else None
    if memory is not None and memory.quantity is not None and memory.quantity.nano > 0:
        becomes = None if after is None else after.limits.get(names.memory)
        if spec.name not in facts.CORES_ARE_TOTALS or becomes != memory.quantity:
            return memory
    cores = container.limits.get(names.cores) if names.cores else None
    if cores is None or cores.quantity is None or spec.name == facts.NEURON:
        return None
    whole = facts.WHOLE_CORES.get(spec.name, 100) * (cards if spec.name in facts.CORES_ARE_TOTALS else 1)
    return cores if 0 < cores.quantity.ceiling < whole else None


def _only_for_one(spec: VendorSpec, container: ContainerView, context: Context) -> bool:
    """Whether the vendor refuses the request, and would take it for a single card."""
    if not context.reading(spec, container).denied:
        return False
    pod = _with_one_card(container.alone, spec.resources.count)
    return not parsed_requests.read(spec, pod).denied


def _with_one_card(pod: Pod, resource: str) -> Pod:
    one = Quantity(NANO, "1")
    container: Container = pod.containers[0]
    single = replace(
        container, limits={**container.limits, resource: one}, requests={**container.requests, resource: one}
    )
    return replace(pod, containers=(single,))


def _selected(pod: PodView, label: str) -> tuple[str, ...]:
    """The values of a node label that a pod selects."""
    if pod.pod is None:
        return ()
    constraints = pod.pod.constraints
    found = [value for key, value in constraints.selector if key == label]
    for term in constraints.affinity or ():
        for requirement in term:
            if requirement.key == label and requirement.operator == "In":
                found.extend(requirement.values)
    return tuple(found)


RULES: Final = (
    VetRule(
        id="HP301",
        name="many-cards",
        severity=VetSeverity.WARNING,
        summary="A container asks for more cards than machines have.",
        why="The count is one of different cards of a node. deviceSplitCount (10 by default) says how many containers "
        "share a card, so a node that shows 10 per card still has one. Only on cards in mode mig the count is one of "
        "instances, several of which may be on one card.",
        fix="Ask for as many different cards as the container uses, and for memory and cores to get parts of them.",
        check=each_request(many_cards),
    ),
    VetRule(
        id="HP302",
        name="impossible-set",
        severity=VetSeverity.ERROR,
        summary="A container asks for a number of cards that are never linked.",
        why="Kunlun cards go together in 1, 2, 4 or 8, dies of an Ascend 910C in twos; other numbers fit on no node.",
        fix="Ask for a number that exists.",
        check=each_request(impossible_set),
    ),
    VetRule(
        id="HP303",
        name="split-of-several",
        severity=VetSeverity.WARNING,
        summary="A container asks for parts of several cards where several are given whole.",
        why="The webhook refuses or overwrites the parts, or the node agent honours the first card's only.",
        fix="Ask for one card, or for whole ones.",
        check=each_request(split_of_several),
    ),
    VetRule(
        id="HP304",
        name="memory-step",
        severity=VetSeverity.ERROR,
        summary="Memory of a Moore Threads card between the steps that exist.",
        why="The webhook refuses it.",
        fix="Write 2, 4, 8, 16, 32, 64 or 96 units of 512 MiB.",
        check=each_request(memory_step),
    ),
    VetRule(
        id="HP305",
        name="amount-rewritten",
        severity=VetSeverity.NOTE,
        summary="The webhook replaces an amount: memory rounded up to a template or slice, a die made a module.",
        why="More is booked, and counted against quotas, than the manifest requests.",
        fix="Write the amount that is booked.",
        check=each_request(rewritten),
    ),
    VetRule(
        id="HP306",
        name="init-container-devices",
        severity=VetSeverity.WARNING,
        summary="An init container or a sidecar asks for Volcano's vGPUs.",
        why="Volcano gives cards to application containers alone. What others ask counts in the sums of the node.",
        fix="Use the card in an application container, or have volcano-vgpu allocate the cards.",
        check=each_request(init_container),
        quirk=volcano_releases.SIDE_CONTAINERS,
    ),
    VetRule(
        id="HP307",
        name="second-container",
        severity=VetSeverity.WARNING,
        summary="Several containers of a pod ask for cards of a vendor that knows one card per pod.",
        why="HAMi wants all containers of a pod on the same MetaX or Moore Threads card.",
        fix="Ask in one container.",
        check=each_pod(second_container),
    ),
    VetRule(
        id="HP308",
        name="neuron-cores-ignored",
        severity=VetSeverity.WARNING,
        summary="A container asks for Neuron devices and Neuron cores.",
        why="The cores are ignored.",
        fix="Keep one of the two.",
        check=each_request(neuron_cores_ignored),
    ),
    VetRule(
        id="HP309",
        name="neuron-set",
        severity=VetSeverity.WARNING,
        summary="A container asks for a number of Neuron devices that AWS never allocates together on Trainium.",
        why="On Trainium AWS allocates 1, 4, 8 and 16 devices; other numbers exist on Inferentia, and in pools with "
        "hami-plugins.io/neuron-sets=linked.",
        fix="Ask for 1, 4, 8 or 16, or select Inferentia instances or a linked pool.",
        check=each_request(neuron_set),
    ),
    VetRule(
        id="HP311",
        name="containers-of-plugin",
        severity=VetSeverity.WARNING,
        summary="Several containers of a pod ask for vGPUs of Volcano.",
        why="volcano-vgpu-device-plugin up to 1.12 compares the cards of the whole pod with those of one container: it "
        "matches no such pod, and kubelet fails it (UnexpectedAdmissionError).",
        fix="Ask for cards in one container, or use volcano-vgpu's agent.",
        check=each_pod(containers_of_plugin),
        quirk=volcano_releases.PLUGIN_TOTALS,
    ),
)
