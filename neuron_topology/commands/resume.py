"""The work of ``neuron resume``, and of ``neuron submit`` after a precompile job: wait for it, create the next job."""

from __future__ import annotations

import queue
from typing import Final, NamedTuple
from urllib.parse import quote

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import AlreadyExistsError, ConfigError, KubeError
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import ObjectChange, Reflector
from hami_plugins.observe import logging
from hami_plugins.wire.fields import Json
from neuron_topology.core.jobs import chain
from neuron_topology.core.jobs.chain import JobOutcome

HANDLE: Final = "kubernetes://torchx/"
"""How TorchX names its jobs: after this the namespace, a colon, and the job's name."""

_REFUSED: Final = frozenset({401, 403})
_LOOK: Final = 5.0
"""Seconds between two looks at whether the server refuses to be watched."""


class JobName(NamedTuple):
    """A Volcano Job's name."""

    namespace: str
    name: str

    @property
    def handle(self) -> str:
        """The name as TorchX' other commands take it."""
        return f"{HANDLE}{self.namespace}:{self.name}"

    @property
    def collection(self) -> str:
        """Where the jobs of its namespace are."""
        return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{quote(self.namespace, safe='')}/jobs"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def named(text: str, *, namespace: str) -> JobName:
    """The job that a person names: as TorchX does, as ``NS/NAME``, or by its name alone."""
    if text.startswith(HANDLE):
        within, _, name = text.removeprefix(HANDLE).partition(":")
    else:
        within, _, name = text.rpartition("/")
    if not name:
        raise ConfigError(f"job {text!r} has no name; write NAMESPACE/NAME, or the name as submit printed it")
    return JobName(within or namespace, name)


def run(client: KubeClient, first: JobName) -> int:
    """Wait until the job has completed, and create the one that it keeps. Exit code 1 where it has not completed."""
    following = chain.kept_in(client.get(f"{first.collection}/{quote(first.name, safe='')}"), f"job {first}:")
    if following is None:
        raise ConfigError(f"job {first} keeps no next job; only submit --precompile creates such jobs")
    then = JobName(first.namespace, following["metadata"]["name"])
    try:
        with inputs.working(f"waiting for {first}"):
            ended = _ended(client, first)
    except KeyboardInterrupt:
        output.remark(f"{first} goes on; {then} is created by: hami-plugins neuron resume {first}")
        raise
    if ended is None or chain.outcome(ended) is JobOutcome.FAILED:
        how = "was deleted" if ended is None else f"is {chain.phase(ended)}"
        output.remark(f"{first} {how}, so that {then} is not created; see torchx log {first.handle}, and submit again")
        return Exit.FINDINGS
    try:
        client.create(then.collection, following)
    except AlreadyExistsError:
        output.remark(f"{then} is there already: another client has waited as well")
    output.line(then.handle)
    return Exit.FINE


def _ended(client: KubeClient, name: JobName) -> Json | None:
    """The job once it has ended; ``None`` where it is gone. An API server that is away for a while is waited for."""
    logging.configure("error", "auto")
    news: queue.SimpleQueue[ObjectChange] = queue.SimpleQueue()
    selection = Selection(name.collection, "Job", fields=f"metadata.name={name.name}")
    follower = Reflector(client, selection, on_change=news.put, name="precompiling")
    follower.start()
    seen = False
    try:
        while True:
            try:
                change = news.get(timeout=_LOOK)
            except queue.Empty:
                if follower.last_status in _REFUSED and not follower.healthy:
                    raise KubeError(follower.last_error, status=follower.last_status) from None
                continue
            if change.kind == "deleted" or (change.kind == "synced" and not seen):
                return None
            seen = True
            if change.object is not None and chain.outcome(change.object) is not JobOutcome.WAITING:
                return change.object
    finally:
        follower.stop()
