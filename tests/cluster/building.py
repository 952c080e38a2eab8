"""``python -m tests.cluster.building [--install]``: the programs of the cluster, built once and kept outside the tree.

The programs lie in ``$XDG_CACHE_HOME/hami-plugins/cluster/<module>-<digest>/``, where the digest covers ``go.mod``,
``go.sum`` and the flags, so a change of one module builds that module alone.
"""

from __future__ import annotations

import fcntl
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
from pathlib import Path
from typing import Final

from tests.cluster.peers import HERE, BuildError, Module, cache, modules

COMPILER: Final = {"GOFLAGS": "", "GOWORK": "off", "GOGC": "400"}
"""A compiler that collects its garbage less often takes a tenth less time, and no one debugs these programs."""
AT_ONCE: Final = 2
"""Modules that are built at the same time: each has stretches that keep only one core at work."""


def unbuilt() -> list[Module]:
    """The chosen modules whose programs are not in the cache. Raises ``BuildError`` for an unknown release."""
    return [module for module in modules() if not module.place().is_dir()]


def programs() -> dict[str, Path]:
    """Every program by its name. Raises ``BuildError`` when one is not built or the machine cannot run them."""
    lacking = [module.folder for module in unbuilt()]
    if lacking:
        raise BuildError(
            f"{', '.join(lacking)}: not built; run `make test-cluster` or `python -m tests.cluster.building`"
        )
    if faults := missing([]):
        raise BuildError("; ".join(faults))
    return {program.name: module.place() / program.name for module in modules() for program in module.programs}


def static_busybox() -> Path | None:
    """A busybox that needs no shared library, so that it can be an image all by itself."""
    found = shutil.which("busybox")
    if found is None or b"/ld-" in Path(found).read_bytes()[:4096]:
        return None
    return Path(found)


def missing(wanted: list[Module]) -> list[str]:
    """What this machine lacks to build the modules and to run the cluster, each with its remedy."""
    faults = []
    if wanted and shutil.which("go") is None:
        faults.append("Go 1.26.8 or newer is not installed: https://go.dev/dl/")
    headers = {module.header for module in wanted if module.header}
    if any(not (Path("/usr/include") / header).is_file() for header in headers) or (
        headers and not shutil.which("gcc")
    ):
        faults.append("no C compiler or no headers of libpfm for koordlet: apt-get install gcc libc6-dev libpfm4-dev")
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        faults.append("containers need root on Linux: run as root, e.g. sudo make test-cluster")
    if any(shutil.which(tool) is None for tool in ("unshare", "nsenter", "mount")):
        faults.append("no unshare, nsenter or mount: apt-get install util-linux mount")
    if shutil.which("runc") is None:  # its module can be built, but not without libseccomp, which a sandbox wants
        faults.append("no runc: apt-get install runc")
    if shutil.which("gpg") is None:
        faults.append("no gpg to sign a chart with: apt-get install gnupg")
    if static_busybox() is None:
        faults.append("no static busybox for the containers' image: apt-get install busybox-static")
    return faults


def install() -> None:
    """Bring in Debian's packages for whatever is missing."""
    packages = ["runc", "busybox-static", "mount", "util-linux", "gnupg"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-qq", *command], check=True, env=environment, stdout=sys.stderr)  # noqa: S607


def build(wanted: list[Module]) -> None:
    """Build into the cache. A module appears there whole or not at all, also when two builds run at a time."""

    def one(module: Module) -> None:
        with _alone(module):
            if not module.place().is_dir():
                _build(module)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [pool.submit(one, module) for module in wanted]
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
    environment = {**os.environ, **COMPILER, "CGO_ENABLED": "1" if module.header else "0"}
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
    try:
        wanted = unbuilt()
    except BuildError as error:
        tell(str(error))
        return 2
    if "--install" in arguments and missing(wanted) and os.geteuid() == 0:
        install()
    if faults := missing(wanted):
        tell("the cluster cannot be built or run here:\n" + "\n".join(f"- {fault}" for fault in faults))
        return 1
    started = time.monotonic()
    try:
        build(wanted)
    except BuildError as error:
        tell(str(error))
        return 1
    if wanted:
        tell(f"built {', '.join(module.folder for module in wanted)} in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
