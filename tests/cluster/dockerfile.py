"""The ``Dockerfile``, built by Buildah without a registry: its base is Debian's packages, its wheels are at hand.

The base stands for ``python:3-slim``: an interpreter with ``venv``, a shell, and what its steps call. Whatever is
installed comes from the wheels of the lock, fetched and checked by their hashes before, so the steps run as written.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from charts.docker.image import PACKAGES, PYTHON, fetch
from tests.cluster.overlay import overlays

TREE: Final = Path(__file__).parents[2]
BASE: Final = "localhost/base:1"
_PINNED: Final = re.compile(r"sha256:[0-9a-f]{64}")
MORE: Final = (
    PYTHON, f"{PYTHON}-venv", "python3-pip-whl", "python3-setuptools-whl", "dash", "sed", "coreutils", "libacl1",
    "libattr1", "libselinux1", "libpcre2-8-0", "libgmp10",
)  # fmt: skip
"""Packages of the build stage besides those of this project's own image."""

WHEELS: Final = "/wheelhouse"
_MERGED: Final = ("bin", "sbin", "lib", "lib64")


class DockerfileError(Exception):
    """A step failed; the text is what it printed."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Buildah with a store of its own in ``folder``."""

    program: Path
    folder: Path

    def prepare(self) -> None:
        """The base and the wheels. Raises ``DockerfileError``."""
        helpers = self.folder / "helpers"
        helpers.mkdir(parents=True)
        (helpers / "netavark").symlink_to("/bin/true")  # no network is ever set up: containers have the host's
        (self.folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        limits = '["nofile=1024:1024", "nproc=4096:4096"]'  # no more than the user of the tests has
        settings = f'[containers]\ndefault_ulimits = {limits}\n[engine]\nhelper_binaries_dir = ["{helpers}"]\n'
        (self.folder / "containers.conf").write_text(settings)
        lock = ["--require-hashes", "--requirement", ".ci/requirements.lock", "--dest", str(self.wheels)]
        _run([sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", *lock])
        root = self.folder / "base"
        _lay_out(self.folder / "packages", root)
        container = self.run("from", "--network", "host", "scratch").strip()
        self.run("add", "--quiet", container, str(root), "/")
        self.run("commit", "--quiet", *self.trusting, container, BASE)

    @property
    def wheels(self) -> Path:
        """Those of the lock."""
        return self.folder / "wheels"

    @property
    def trusting(self) -> Sequence[str]:
        """The packages of a test are unsigned."""
        return ("--signature-policy", str(self.folder / "policy.json"))

    def build(self, arguments: str) -> str:
        """As ``docker build`` with these arguments, in the tree; what it printed. Raises ``DockerfileError``."""
        local = ["--network", "host", "--isolation", "oci", "--pull-never", "--layers"]  # docker keeps layers unasked
        ignored = ["--ignorefile", "charts/docker/Dockerfile.dockerignore"]
        mounted = ["--volume", f"{self.wheels}:{WHEELS}:ro"]
        words = [*self.trusting, *local, *ignored, *mounted, *shlex.split(arguments)]
        return _run(self._command("build", *words), {**self._environment(), "BASE": self._base()})

    def _base(self) -> str:
        """The base by its digest."""
        described = self.run("inspect", "--type", "image", "--format", "{{.FromImageDigest}}", BASE)
        found = _PINNED.search(described)
        assert found is not None, described
        return f"{BASE.rpartition(':')[0]}@{found[0]}"

    def container(self, image: str) -> str:
        """A container of the image."""
        return self.run("from", "--network", "host", "--pull-never", *self.trusting, image).strip()

    def started(self, container: str, *words: str, user: str) -> subprocess.CompletedProcess[str]:
        """The entry point with these words, as that user, to its end."""
        entry = ["python", "-m", "hami_plugins.cli"]
        run = self._command("run", "--isolation", "oci", "--user", user, container, "--", *entry, *words)
        return subprocess.run(run, env=self._environment(), capture_output=True, text=True, check=False, timeout=120)

    def run(self, verb: str, *words: str) -> str:
        """What a command of Buildah's printed. Raises ``DockerfileError``."""
        return _run(self._command(verb, *words), self._environment())

    def _command(self, verb: str, *words: str) -> list[str]:
        store = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run")]
        driver = "overlay" if overlays(self.folder) else "vfs"
        return [str(self.program), *store, "--storage-driver", driver, verb, *words]

    def _environment(self) -> dict[str, str]:
        settings = str(self.folder / "containers.conf")
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), "CONTAINERS_CONF": settings}


def _lay_out(packages: Path, root: Path) -> None:
    """A root of Debian's packages, with ``/lib`` in ``/usr/lib`` as on every Debian of today."""
    packages.mkdir()
    fetch(packages, [*PACKAGES, *MORE])
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in sorted(packages.glob("*.deb")):
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout  # noqa: S607
        with tarfile.open(fileobj=BytesIO(content)) as tar:
            for member in tar:
                if not (member.isdir() and (root / member.name).is_dir()):
                    tar.extract(member, root, filter="tar")
    for name, target in (("python", PYTHON), ("python3", PYTHON), ("sh", "dash")):
        (root / "usr/bin" / name).unlink(missing_ok=True)
        (root / "usr/bin" / name).symlink_to(target)
    for name, text in {
        "pip.conf": f"[global]\nno-index = true\nfind-links = {WHEELS}\n",
        "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    }.items():
        (root / "etc" / name).write_text(text)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _run(command: Sequence[str], environment: dict[str, str] | None = None, folder: Path = TREE) -> str:
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        raise DockerfileError(f"{shlex.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout
