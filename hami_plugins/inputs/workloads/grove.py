"""Grove's sets of cliques (``grove.io/v1alpha1``): PodCliqueSet, and PodClique by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import pods
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pods import MAX_PODS, PodTemplate
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, numbered
from hami_plugins.wire.gang_keys import TASK_KEY

GROVE_GANG: Final = "Grove's scheduler starts these pods together (PodGang); planned so"


class _Clique(NamedTuple):
    """One clique of the set: its template, its pods, and how many of them have to start."""

    name: str
    of: PodTemplate
    replicas: int
    least: int


def _pod_clique_set(it: SubmittedObject) -> Iterator[Run]:
    """``replicas`` copies of all cliques, each copy a gang.

    Of every clique ``minAvailable`` pods (else all) start together; of a scaling group ``minAvailable`` copies (else 1)
    are part of that gang, and every further copy is a gang of its own (``podcliqueset.go``, ``scalinggroup.go``).
    """
    template = it.spec.needed("template")
    cliques = {each.text("name"): _clique(it, each, each.needed("spec")) for each in template.items("cliques")}
    if not cliques:
        raise template.fault("a PodCliqueSet needs cliques", "cliques")
    groups = template.items("podCliqueScalingGroups") or template.items("podCliqueScalingGroupConfigs")
    grouped = [name for group in groups for name in _names(group, cliques)]
    alone = [clique for name, clique in cliques.items() if name not in grouped]
    copies = it.spec.count("replicas", 0, most=MAX_PODS)
    pods.product(it.spec, copies, max(sum(clique.replicas for clique in cliques.values()), 1))
    pods.gangs(it.spec, copies * max(sum(group.count("replicas", 1) for group in groups), 1))
    for at in range(copies):
        base: list[tuple[str, _Clique]] = [(f"{at}-{clique.name}", clique) for clique in alone]
        further: list[list[tuple[str, _Clique]]] = []
        for group in groups:
            wanted = group.count("replicas", 1, most=MAX_PODS)
            least = group.count("minAvailable", 1)
            for number in range(wanted):
                members = [
                    (f"{at}-{group.text('name')}-{number}-{name}", cliques[name]) for name in _names(group, cliques)
                ]
                if number < least:
                    base += members
                else:
                    further.append(members)
        for number, members in enumerate((base, *further)):
            yield from _gang(it, f"{it.name}-{at}-{number}", members)


def _gang(it: SubmittedObject, name: str, members: list[tuple[str, _Clique]]) -> Iterator[Run]:
    """Cliques that start together: at least so many pods of each."""
    least = {role: clique.least for role, clique in members}
    gang = Gang(group=f"{it.namespace}/{name}", min_member=sum(least.values()), min_by_task=least, queue="")
    for role, clique in members:
        marked = clique.of.with_annotations({TASK_KEY: role})
        yield numbered(it, marked, role, clique.replicas)._replace(gang=gang, group="", notes=(GROVE_GANG,))


def _pod_clique(it: SubmittedObject) -> Iterator[Run]:
    clique = _clique(it, it.field, it.spec)
    gang = Gang(group=f"{it.namespace}/{it.name}", min_member=clique.least, queue="")
    yield numbered(it, clique.of, "", clique.replicas)._replace(gang=gang, group="", notes=(GROVE_GANG,))


def _clique(it: SubmittedObject, owner: Field, spec: Field) -> _Clique:
    texts = {key: owner.inner("metadata").texts(key) or owner.texts(key) for key in ("labels", "annotations")}
    written = {"metadata": texts, "spec": spec.needed("podSpec").members}
    of = pods.template(Field(spec.document, (*spec.path, "podSpec"), written), it.namespace)
    replicas = spec.count("replicas", 1, most=MAX_PODS)
    least = spec.count("minAvailable", replicas)
    if replicas and least > replicas:
        raise spec.fault(f"{least} is more than the clique's {replicas} replicas", "minAvailable")
    return _Clique(owner.text("name") or it.name, of, replicas, min(least, replicas))


def _names(group: Field, cliques: Mapping[str, _Clique]) -> list[str]:
    """The cliques of a scaling group."""
    listed = group.members.get("cliqueNames")
    names = [str(each) for each in listed] if isinstance(listed, list) else []
    for name in names:
        if name not in cliques:
            raise group.fault(f"no clique {name[:80]!r} in this set", "cliqueNames")
    return names


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("grove.io", "PodCliqueSet"): _pod_clique_set,
    ("grove.io", "PodClique"): _pod_clique,
}
