"""The steps of a comparison, made: the only place that writes HyperNodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hami_plugins.kube.port import Collection, Writing
from neuron_topology.core.hypernodes import objects
from neuron_topology.core.hypernodes.differences import HyperNodeStep, Verb

COLLECTION: Final = Collection(f"/apis/{objects.API_VERSION}/hypernodes", objects.KIND)


def apply(api: Writing, steps: Iterable[HyperNodeStep]) -> Iterator[HyperNodeStep]:
    """Make the steps one by one, and tell of each that is done.

    Every update and deletion requires the version that was read: ``ContentionError`` if another client was faster, with
    the steps before it done. Then compare again and apply the rest.
    """
    versions: dict[str, str] = {}
    for step in steps:
        path = f"{COLLECTION.path}/{step.name}"
        version = versions.get(step.name, step.version)
        match step.verb:
            case Verb.CREATE:
                api.create(COLLECTION.path, step.body)
            case Verb.UPDATE:
                metadata = {**step.body["metadata"], "resourceVersion": version}
                written = api.replace(path, {**step.body, "metadata": metadata})
                versions[step.name] = str(written["metadata"]["resourceVersion"])
            case Verb.DELETE:
                api.delete(path, body={"preconditions": {"resourceVersion": version}})
        yield step
