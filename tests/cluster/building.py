"""``python -m tests.cluster.building [--install]``: the programs of the cluster, built once and kept outside the tree.

Each folder with a ``go.mod`` beside this file names one upstream release as tool dependencies; nothing else of theirs
is kept here. The programs lie in ``$XDG_CACHE_HOME/hami-plugins/cluster/<module>-<digest>/``, where the digest covers
``go.mod``, ``go.sum`` and the flags, so a change of one module builds that module alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
FLAGS: Final = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false")
COMPILER: Final = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOGC": "400"}
"""A compiler that collects its garbage less often takes a tenth less time, and no one debugs these programs."""


class BuildError(Exception):
    """The programs cannot be built; the text says what is missing and how to get it."""


class Program(NamedTuple):
    """A binary and the Go package it is built from."""

    name: str
    package: str

    @property
    def built_as(self) -> str:
        """What Go calls it: the last part of the package that is no major version."""
        return next(part for part in reversed(self.package.split("/")) if not part[1:].isdigit())


@dataclass(frozen=True, slots=True)
class Module:
    """A folder with a ``go.mod`` of its own. ``data`` are files that the release publishes beside its sources.

    ``tags`` are Go's, such as those that leave out what needs a C library.
    """

    folder: str
    release: str
    programs: tuple[Program, ...]
    stamp: str = ""
    data: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

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
        return wanted.hexdigest()[:16]

    def place(self) -> Path:
        """Where the programs lie once they are built."""
        return cache() / f"{self.folder}-{self.digest()}"


def _kubernetes(*names: str) -> tuple[Program, ...]:
    return tuple(Program(name, f"k8s.io/kubernetes/cmd/{name}") for name in names)


_VERSION: Final = "k8s.io/component-base/version"
KUBERNETES: Final = Module(
    folder="kubernetes",
    release="k8s.io/kubernetes@v1.34.4",
    programs=_kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"),
    stamp=f"-X {_VERSION}.gitVersion=v1.34.4 -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34",
)
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
KOORDINATOR: Final = Module(
    folder="koordinator",
    release="github.com/koordinator-sh/koordinator@v1.7.0",
    programs=tuple(
        Program(f"koord-{name}", f"github.com/koordinator-sh/koordinator/cmd/koord-{name}")
        for name in ("scheduler", "manager")
    ),
    data=("config/crd/bases", "config/webhook"),
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
KUBECTL: Final = Module(
    folder="kubectl",
    release=KUBERNETES.release,
    programs=_kubernetes("kubectl"),
    stamp=KUBERNETES.stamp,
)
BUILDAH: Final = Module(
    folder="buildah",
    release="github.com/containers/buildah@v1.41.5",
    programs=(Program("buildah", "github.com/containers/buildah/cmd/buildah"),),
    tags=("containers_image_openpgp", "exclude_graphdriver_btrfs"),
)
MODULES: Final = (
    KUBERNETES,
    KOORDINATOR,
    CONTAINERD,
    ETCD,
    HELM4,
    VOLCANO,
    PROMTOOL,
    HELM3,
    KUBECTL,
    BUILDAH,
    KUBECONFORM,
)
"""In the order of building, longest first: what is built of the same libraries is not built at the same time."""

AT_ONCE: Final = 2
"""Modules that are built at the same time: each has stretches that keep only one core at work."""


def cache() -> Path:
    """The folder of all builds of this project and this user."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "hami-plugins" / "cluster"


def unbuilt() -> list[Module]:
    """The modules whose programs are not in the cache."""
    return [module for module in MODULES if not module.place().is_dir()]


def programs() -> dict[str, Path]:
    """Every program by its name. Raises ``BuildError`` when one is not built or the machine cannot run them."""
    lacking = [module.folder for module in unbuilt()]
    if lacking:
        raise BuildError(
            f"{', '.join(lacking)}: not built; run `make test-cluster` or `python -m tests.cluster.building`"
        )
    if faults := missing([]):
        raise BuildError("; ".join(faults))
    return {program.name: module.place() / program.name for module in MODULES for program in module.programs}


def static_busybox() -> Path | None:
    """A busybox that needs no shared library, so that it can be an image all by itself."""
    found = shutil.which("busybox")
    if found is None or b"/ld-" in Path(found).read_bytes()[:4096]:
        return None
    return Path(found)


def missing(modules: list[Module]) -> list[str]:
    """What this machine lacks to build the modules and to run the cluster, each with its remedy."""
    faults = []
    if modules and shutil.which("go") is None:
        faults.append("Go 1.26.8 or newer is not installed: https://go.dev/dl/")
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        faults.append("containers need root on Linux: run as root, e.g. sudo make test-cluster")
    if any(shutil.which(tool) is None for tool in ("unshare", "nsenter", "mount")):
        faults.append("no unshare, nsenter or mount: apt-get install util-linux mount")
    if shutil.which("runc") is None:  # its module can be built, but not without libseccomp, which a sandbox wants
        faults.append("no runc: apt-get install runc")
    if static_busybox() is None:
        faults.append("no static busybox for the containers' image: apt-get install busybox-static")
    return faults


def install() -> None:
    """Bring in Debian's packages for whatever is missing."""
    packages = ["runc", "busybox-static", "mount", "util-linux"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-qq", *command], check=True, env=environment, stdout=sys.stderr)  # noqa: S607


def build(modules: list[Module]) -> None:
    """Build into the cache. A module appears there whole or not at all, also when two builds run at a time."""

    def one(module: Module) -> None:
        with _alone(module):
            if not module.place().is_dir():
                _build(module)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [pool.submit(one, module) for module in modules]
        try:
            for each in started:
                each.result()
        except BuildError:
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _alone(module: Module) -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{module.folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: Module) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{module.folder}-", dir=cache()) as name:
        half = Path(name) / "built"
        half.mkdir()
        started = time.monotonic()
        packages = [program.package for program in module.programs]
        _go(module, "build", *module.flags, f"-ldflags={module.link_flags}", "-o", f"{half}{os.sep}", *packages)
        for program in module.programs:
            (half / program.built_as).rename(half / program.name)
        names = ", ".join(program.name for program in module.programs)
        tell(f"built {names} of {module.release} in {time.monotonic() - started:.0f} s")
        for folder in module.data:
            _copy(module, folder, half / "data")
        half.rename(module.place())


def _copy(module: Module, folder: str, target: Path) -> None:
    described = json.loads(_go(module, "mod", "download", "-json", module.release))
    shutil.copytree(Path(described["Dir"]) / folder, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    target.chmod(0o755)  # the module cache is read-only, and copytree keeps that


def _go(module: Module, *arguments: str) -> str:
    environment = {**os.environ, **COMPILER}
    done = subprocess.run(
        ["go", *arguments],  # noqa: S607
        cwd=HERE / module.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{module.folder}: go {arguments[0]} failed:\n{done.stderr.strip()}")
    return done.stdout


def tell(line: str) -> None:
    """A line of progress, at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Build whatever is not in the cache; 1 when something is missing or does not compile, with its name."""
    unknown = sorted(set(arguments) - {"--install"})
    if unknown:
        tell(f"{', '.join(unknown)}: no such option; there is --install, to bring in missing Debian packages")
        return 2
    modules = unbuilt()
    if "--install" in arguments and missing(modules) and os.geteuid() == 0:
        install()
    if faults := missing(modules):
        tell("the cluster cannot be built or run here:\n" + "\n".join(f"- {fault}" for fault in faults))
        return 1
    started = time.monotonic()
    try:
        build(modules)
    except BuildError as error:
        tell(str(error))
        return 1
    if modules:
        tell(f"built {', '.join(module.folder for module in modules)} in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
