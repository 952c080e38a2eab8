"""The peers: which release of which upstream project the programs of the cluster are built from.

Each folder with a ``go.mod`` next to this file names one upstream release as tool dependencies; nothing else of theirs
is kept here. Of Kubernetes and Koordinator there are several releases, and the environment chooses one:
``KUBERNETES=1.36``, ``KOORDINATOR=1.8``. The peers of ``CLIENTS`` are built where the environment chooses
them: ``CLIENTS=1``, ``CLIENTS=prometheus,karpenter``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
FLAGS: Final = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false")


class BuildError(Exception):
    """The programs cannot be built; the text says what is missing and how to get it."""


class Program(NamedTuple):
    """A binary and the Go package it is built from."""

    name: str
    package: str

    @property
    def built_as(self) -> str:
        """Go's name for it: the last part of the package that is not a major version."""
        return next(part for part in reversed(self.package.split("/")) if not part[1:].isdigit())


@dataclass(frozen=True, slots=True)
class Module:
    """A folder with a ``go.mod`` of its own. ``data`` are files that the release publishes in addition to its sources.

    ``tags`` are Go's, such as those that leave out what needs a C library. ``header`` is that of a C library that the
    programs need.
    """

    folder: str
    release: str
    programs: tuple[Program, ...]
    stamp: str = ""
    data: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    header: str = ""

    @property
    def link_flags(self) -> str:
        return f"-s -w {self.stamp}".rstrip()

    @property
    def flags(self) -> tuple[str, ...]:
        return (*FLAGS, *([f"-tags={','.join(self.tags)}"] if self.tags else []))

    def digest(self) -> str:
        """Names one content of the module and one way to build it."""
        wanted = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            wanted.update((HERE / self.folder / name).read_bytes())
        wanted.update(repr((self.flags, self.link_flags, self.programs, self.data)).encode())
        wanted.update(self.header.encode())
        return wanted.hexdigest()[:16]

    def place(self) -> Path:
        """Where the programs lie once they are built."""
        return cache() / f"{self.folder}-{self.digest()}"


POLICIES_SERVED: Final[Mapping[str, str]] = {"1.34": "v1beta1", "1.36": "v1"}
"""In which version the API server of a release serves MutatingAdmissionPolicy."""

_COMMANDS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")


def _kubernetes(folder: str, version: str, *names: str) -> Module:
    """Programs of one release. They get their version when they are linked, as in the releases."""
    package = "k8s.io/component-base/version"
    major, minor, _ = version.split(".")
    return Module(
        folder=folder,
        release=f"k8s.io/kubernetes@v{version}",
        programs=tuple(Program(name, f"k8s.io/kubernetes/cmd/{name}") for name in names),
        stamp=f"-X {package}.gitVersion=v{version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}",
    )


def _koordinator(folder: str, version: str, *names: str, header: str = "") -> Module:
    return Module(
        folder=folder,
        release=f"github.com/koordinator-sh/koordinator@v{version}",
        programs=tuple(Program(name, f"github.com/koordinator-sh/koordinator/cmd/{name}") for name in names),
        data=("config/crd/bases", "config/webhook"),
        header=header,
    )


KUBERNETES: Final[Mapping[str, tuple[Module, ...]]] = {
    "1.34": (_kubernetes("kubernetes", "1.34.4", *_COMMANDS), _kubernetes("kubectl", "1.34.4", "kubectl")),
    "1.36": (_kubernetes("kubernetes-1.36", "1.36.3", *_COMMANDS, "kubectl"),),
}
KOORDINATOR: Final[Mapping[str, Module]] = {
    "1.7": _koordinator("koordinator", "1.7.0", "koord-scheduler", "koord-manager"),
    "1.8": _koordinator(
        "koordinator-1.8", "1.8.0", "koordlet", "koord-scheduler", "koord-manager", header="perfmon/pfmlib.h"
    ),
}
CONTAINERD: Final = Module(
    folder="containerd",
    release="github.com/containerd/containerd/v2@v2.1.4",
    programs=tuple(
        Program(name, f"github.com/containerd/containerd/v2/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    stamp="-X github.com/containerd/containerd/v2/version.Version=v2.1.4",
)
ETCD: Final = Module(
    folder="etcd",
    release="go.etcd.io/etcd/server/v3@v3.6.4",
    programs=(Program("etcd", "go.etcd.io/etcd/server/v3"),),
)
VOLCANO: Final = Module(
    folder="volcano",
    release="volcano.sh/volcano@v1.14.1",
    programs=tuple(
        Program(f"vc-{name}", f"volcano.sh/volcano/cmd/{name}")
        for name in ("scheduler", "controller-manager", "webhook-manager")
    ),
    data=("installer/helm/chart/volcano/crd/bases", "installer/helm/chart/volcano/charts/jobflow/crd/bases"),
)
HELM3: Final = Module(
    folder="helm3",
    release="helm.sh/helm/v3@v3.22.0",
    programs=(Program("helm3", "helm.sh/helm/v3/cmd/helm"),),
    stamp="-X helm.sh/helm/v3/internal/version.version=v3.22.0",
)
HELM4: Final = Module(
    folder="helm4",
    release="helm.sh/helm/v4@v4.3.1",
    programs=(Program("helm4", "helm.sh/helm/v4/cmd/helm"),),
    stamp="-X helm.sh/helm/v4/internal/version.version=v4.3.1",
)
KUBECONFORM: Final = Module(
    folder="kubeconform",
    release="github.com/yannh/kubeconform@v0.8.0",
    programs=(Program("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform"),),
)
PROMTOOL: Final = Module(
    folder="promtool",
    release="github.com/prometheus/prometheus@v0.313.5",
    programs=(Program("promtool", "github.com/prometheus/prometheus/cmd/promtool"),),
    tags=("remove_all_sd",),  # rules are checked, and no cloud is asked for its machines
)
BUILDAH: Final = Module(
    folder="buildah",
    release="github.com/containers/buildah@v1.41.5",
    programs=(Program("buildah", "github.com/containers/buildah/cmd/buildah"),),
    tags=("containers_image_openpgp", "exclude_graphdriver_btrfs"),
)

PROMETHEUS: Final = Module(
    folder="prometheus",
    release="github.com/prometheus/prometheus@v0.313.5",
    programs=(Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),),
    tags=PROMTOOL.tags,
)
KARPENTER: Final = Module(
    folder="karpenter",
    release="sigs.k8s.io/karpenter@v1.14.1",
    programs=(Program("karpenter", "sigs.k8s.io/karpenter/kwok"),),
    data=("pkg/apis/crds", "kwok/apis/crds"),
)
DESCHEDULER: Final = Module(
    folder="descheduler",
    release="sigs.k8s.io/descheduler@v0.36.0",
    programs=(Program("descheduler", "sigs.k8s.io/descheduler/cmd/descheduler"),),
)
CERT_MANAGER: Final = Module(
    folder="cert_manager",
    release="github.com/cert-manager/cert-manager@v1.11.5",  # the programs of later releases are no published modules
    programs=tuple(
        Program(f"cert-manager-{name}", f"github.com/cert-manager/cert-manager/cmd/{name}")
        for name in ("controller", "cainjector")
    ),
    data=("deploy/crds",),
)
PROMETHEUS_OPERATOR: Final = Module(
    folder="prometheus_operator",
    release="github.com/prometheus-operator/prometheus-operator@v0.85.0",
    programs=(
        Program(
            "prometheus-operator-admission", "github.com/prometheus-operator/prometheus-operator/cmd/admission-webhook"
        ),
    ),
    data=("example/prometheus-operator-crd",),
)
KUEUE: Final = Module(
    folder="kueue",
    release="sigs.k8s.io/kueue@v0.17.0",
    programs=(Program("kueue", "sigs.k8s.io/kueue/cmd/kueue"),),
    data=("config/components/crd/bases", "config/components/webhook"),
)
CLIENTS: Final[Mapping[str, Module]] = {
    module.folder: module for module in (CERT_MANAGER, KARPENTER, PROMETHEUS, DESCHEDULER, PROMETHEUS_OPERATOR, KUEUE)
}
"""Controllers and clients of others that run beside us, longest build first."""


def clients(environment: Mapping[str, str] = os.environ) -> tuple[Module, ...]:
    """Those of ``CLIENTS`` that a run has: all with ``CLIENTS=1``, else those that are listed, with commas between.

    Raises ``BuildError`` for one that is not known.
    """
    wanted = environment.get("CLIENTS", "").split(",")
    if wanted == ["0"]:
        return ()
    if wanted == ["1"]:
        return tuple(CLIENTS.values())
    if unknown := sorted(set(wanted) - {*CLIENTS, ""}):
        raise BuildError(f"CLIENTS={','.join(unknown)}: no such peer; choose 1 for all, or of {', '.join(CLIENTS)}")
    return tuple(module for name, module in CLIENTS.items() if name in wanted)


def chosen(variable: str, releases: Mapping[str, object], environment: Mapping[str, str] = os.environ) -> str:
    """The release that the environment names, else the oldest. Raises ``BuildError`` for one that is not listed."""
    wanted = environment.get(variable) or next(iter(releases))
    if wanted not in releases:
        raise BuildError(f"{variable}={wanted}: no such release; choose one of {', '.join(releases)}")
    return wanted


def koordinator(environment: Mapping[str, str] = os.environ) -> Module:
    """The chosen Koordinator. Raises ``BuildError``."""
    return KOORDINATOR[chosen("KOORDINATOR", KOORDINATOR, environment)]


def modules(environment: Mapping[str, str] = os.environ) -> tuple[Module, ...]:
    """What the chosen cluster consists of, longest build first. Raises ``BuildError``.

    Programs with the same libraries are not built at the same time.
    """
    control_plane, *command_lines = KUBERNETES[chosen("KUBERNETES", KUBERNETES, environment)]
    return (
        control_plane,
        koordinator(environment),
        CONTAINERD,
        ETCD,
        HELM4,
        VOLCANO,
        PROMTOOL,
        HELM3,
        *command_lines,
        BUILDAH,
        KUBECONFORM,
        *clients(environment),
    )


def cache() -> Path:
    """The folder of all builds of this project and this user."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "hami-plugins" / "cluster"
