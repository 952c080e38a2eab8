"""A training job as TorchX' own component makes it, with what Neuron devices and EFA need around it.

Source: TorchX 0.7.0 ``torchx/schedulers/kubernetes_scheduler.py`` and data-on-eks ``lib/trn1_dist_ddp.py``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from hami_plugins.errors import ConfigError
from neuron_topology.core import efa, names
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hypernodes import tiers
from neuron_topology.core.jobs.templates import LNC_ENV, TIER_ENV, TOLERATION
from neuron_topology.core.named_resources import NAMED, PREFIX, NamedResource

CACHE_PATH: Final = "/var/cache/neuron"
"""Where the volume for compiled graphs is in the container. One for all: the compiler locks its entries itself."""

CACHE_FOLDER: Final = "neuron-cache"
"""The folder of a claim that is mounted for other data as well."""

COMPILE: Final = "neuron_parallel_compile"
"""Runs a script as far as its graphs are known, and compiles them."""

_RUNTIME: Final[Mapping[str, str]] = {"NEURON_RT_RESET_CORES": "1", "XLA_TRANSFER_SEED_ASYNC": "1"}
_NETWORK: Final[Mapping[str, str]] = {**efa.VARIABLES, "CCOM_SOCKET_IFNAME": "eth0"}
_SPELLINGS: Final[Mapping[str, str]] = {
    "source": "src",
    "destination": "dst",
    "target": "dst",
    "read_only": "readonly",
}
"""Other names for the parts of a mount (TorchX 0.7.0 ``torchx/specs/builders.py``)."""

_RENDEZVOUS: Final = re.compile(r"--rdzv_backend \S+ --rdzv_endpoint \S+")
"""As TorchX' component writes it: a store in the first pod, by ``c10d``."""

_SERVICE: Final = re.compile(r"([a-z0-9-]+)://([\w.:-]+)")

_COMPILER_FLAGS: Final = "NEURON_CC_FLAGS"
_SAME_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {"--lnc": ("--lnc", "-lnc", "--logical-nc-config")}
_CACHE_URL: Final = "NEURON_COMPILE_CACHE_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What the component was asked for; see there."""

    image: str
    script: str | None = None
    module: str | None = None
    name: str = "/"
    resource: str
    shape: str = "1"
    env: Mapping[str, str]
    max_retries: int = 0
    rdzv_port: int = 29500
    rdzv: str = ""
    mounts: tuple[str, ...] = ()
    cache: str = ""
    precompile: bool = False
    bf16: bool = False
    tier: str = ""
    lnc: int = 0


def app(script_args: Sequence[str], job: TrainingJob) -> Any:
    """TorchX' application. Raises ``ConfigError`` for a resource, a tier or a setting that there is not."""
    resource = _resource(job.resource)
    choices = INSTANCE_TYPES[resource.instance_type].lnc_choices
    if job.lnc and job.lnc not in choices:
        there = " or ".join(map(str, choices)) or "no such setting"
        raise ConfigError(f"lnc {job.lnc}: {resource.instance_type} has {there}; leave lnc out")
    from torchx.components import dist

    launched = getattr(dist, "torchrun", None) or dist.ddp  # newer releases deprecate the old name
    made = launched(
        *script_args,
        script=job.script,
        m=job.module,
        image=job.image,
        name=job.name,
        h=job.resource,
        j=shape(job.shape, resource, job.lnc),
        env=environment(job, resource),
        max_retries=job.max_retries,
        rdzv_port=job.rdzv_port,
        mounts=_mounts(job) or None,
    )
    (role,) = made.roles
    role.name = plain_name(role.name)
    if job.rdzv:
        role.args[-1] = _RENDEZVOUS.sub(_rendezvous(job.rdzv), role.args[-1], count=1)
    if job.precompile:
        role.args[-1] = f"{COMPILE} {role.args[-1]}"
    _tolerate(role)
    return made


def _rendezvous(text: str) -> str:
    """The options of torchrun for a rendezvous service. Raises ``ConfigError`` for an invalid address."""
    found = _SERVICE.fullmatch(text)
    if found is None:
        raise ConfigError(f"rdzv {text}: write BACKEND://HOST:PORT, as etcd-v2://etcd-server:2379, or leave rdzv out")
    return f"--rdzv_backend {found[1]} --rdzv_endpoint {found[2]}"


def shape(text: str, resource: NamedResource, lnc: int = 0) -> str:
    """The shape with a process for each core at this LNC (0: the default), where it does not say how many."""
    return text if "x" in text else f"{text}x{resource.workers(lnc)}"


def plain_name(role: str) -> str:
    """A role's name without the hyphen and underscore, of which TorchX and Volcano make different variables."""
    return role.replace("-", "").replace("_", "") or role


def environment(job: TrainingJob, resource: NamedResource) -> dict[str, str]:
    """The variables, those of the job last."""
    found = dict(_RUNTIME)
    if names.EFA in resource.devices:
        found |= _NETWORK
    if path := cache_path(job):
        found[_CACHE_URL] = path
        found[_COMPILER_FLAGS] = f"--cache_dir={path}"
    if job.lnc:
        found[LNC_ENV] = str(job.lnc)
        found[_COMPILER_FLAGS] = " ".join(filter(None, (found.get(_COMPILER_FLAGS), f"--lnc={job.lnc}")))
    if job.bf16:
        found["XLA_DOWNCAST_BF16"] = "1"
    if job.tier:
        found[TIER_ENV] = tiers.named(job.tier).name
    if _COMPILER_FLAGS in job.env and _COMPILER_FLAGS in found:
        own = shlex.split(job.env[_COMPILER_FLAGS])
        more = [each for each in found[_COMPILER_FLAGS].split() if not _said(each, own)]
        return found | dict(job.env) | {_COMPILER_FLAGS: shlex.join([*own, *more])}
    return found | dict(job.env)


def _said(flag: str, own: Sequence[str]) -> bool:
    """Whether the job's own flags say something about what one of ours is about."""
    name = flag.partition("=")[0]
    return any(each.partition("=")[0] in _SAME_FLAGS.get(name, (name,)) for each in own)


def _resource(name: str) -> NamedResource:
    found = NAMED.get(name)
    if found is None:
        kind = INSTANCE_TYPES.get(name.removeprefix(PREFIX).rpartition("_")[0])
        known = [each.name for each in NAMED.values() if kind is None or each.instance_type == kind.name]
        whole = [each for each in known if "_" not in each.removeprefix(PREFIX)]
        there = known if kind else [*whole, "and with _1, _2, _4, _8 or _16 after that so many of a machine's devices"]
        raise ConfigError(f"no resource for Neuron is called {name}; there are {', '.join(there)}")
    return found


def cache_path(job: TrainingJob) -> str:
    """Where compiled graphs are in the container: a path as given, a folder of a claim that is mounted anyway, or
    ``CACHE_PATH``; empty for a job without a cache.
    """
    if not job.cache or job.cache.startswith("/"):
        return job.cache
    mounted = _mounted_at(job)
    return str(PurePosixPath(mounted) / CACHE_FOLDER) if mounted else CACHE_PATH


def _mounted_at(job: TrainingJob) -> str:
    """Where the job mounts the claim of its cache itself, and may write there; empty where it does not.

    Kubelets before 1.35 never start a pod with two volumes of one claim (Kubernetes PR 122140).
    """
    mount: dict[str, str] = {}
    found = [mount]
    for key, _, value in (part.partition("=") for each in job.mounts for part in each.split(",")):
        if key == "type":
            mount = {}
            found.append(mount)
        mount[_SPELLINGS.get(key, key)] = value
    ours = {"type": "volume", "src": job.cache}
    return next((each.get("dst", "") for each in found if ours.items() <= each.items() and "readonly" not in each), "")


def _mounts(job: TrainingJob) -> list[str]:
    """As TorchX takes them on a command line, one word for each part."""
    extra = job.cache and not job.cache.startswith("/") and not _mounted_at(job)
    cache = [f"type=volume,src={job.cache},dst={CACHE_PATH}"] if extra else []
    return [part for mount in (*job.mounts, *cache) for part in mount.split(",")]


def _tolerate(role: Any) -> None:
    """The taint of Neuron nodes, where TorchX lets a component say so; else ``neuron patch`` or EKS does."""
    try:
        from torchx.specs.overlays import set_overlay
    except ImportError:
        return
    set_overlay(role, "kubernetes", "V1Pod", {"spec": {"tolerations": [dict(TOLERATION)]}})
