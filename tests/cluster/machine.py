"""A private machine inside this one: own processes, own ``/run``, ``/var/lib``, ``/var/log`` and ``/etc/hosts``.

The kubelet's device-plugin folder, the containerd shims' sockets and the links in ``/var/log/containers`` have fixed
paths. Rather than share those with the host, or with a second test run, everything runs in one mount and PID namespace:
paths inside are the usual ones, nothing of it is seen outside, and its end takes all processes and mounts along.
Only control groups are the host's; the machine has one of its own in each hierarchy, named as its folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final

from tests.cluster.waiting import PATIENCE, wait_until

PREFIX: Final = "hami-cluster-"
HOLDER: Final = Path(__file__).with_name("holder.py")
FOLDER: Final = "/tmp"  # noqa: S108 short, for the length that a unix socket may have
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SERVICE_ACCOUNT: Final = "/run/secrets/kubernetes.io/serviceaccount"


class Machine:
    """Starts on creation; ``close`` ends it and removes whatever it left, and may be called again."""

    def __init__(self, *, hosts: Sequence[str] = (), programs: Sequence[Path] = ()) -> None:
        with closing(_Lock(Path(FOLDER), wait=True)):  # no sweep removes a folder that is not locked yet
            sweep()
            self.root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=FOLDER))
            self._lock = _Lock(self.root)
        self.name = self.root.name
        self.path_variable = os.pathsep.join(
            [*dict.fromkeys(str(program.parent) for program in programs), _SYSTEM_PATH]
        )
        self._unshare: subprocess.Popen[str] | None = None
        self._started: list[subprocess.Popen[bytes]] = []
        atexit.register(self.close)
        try:
            self._start(hosts)
        except BaseException:
            self.close()
            raise

    def _start(self, hosts: Sequence[str]) -> None:
        (self.root / "hosts").write_text(f"127.0.0.1 {' '.join(['localhost', *hosts])}\n")
        for folder in ("logs", "tmp"):
            (self.root / folder).mkdir()
        for group in self._groups():
            group.mkdir()
        namespaces = ["--mount", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
        with (self.root / "logs" / "holder.log").open("w") as log:
            self._unshare = subprocess.Popen(
                ["unshare", *namespaces, sys.executable, "-I", str(HOLDER), str(self.root)],  # noqa: S607
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._unshare.stdout is not None
        if self._unshare.stdout.readline() != "ready\n":
            raise OSError(f"no private machine: {(self.root / 'logs' / 'holder.log').read_text().strip()}")
        self.holder = child_of(self._unshare)

    @property
    def logs(self) -> Path:
        """Where whatever runs here writes its output."""
        return self.root / "logs"

    def path(self, inside: str) -> Path:
        """How this process reaches an absolute path of the machine; also good for unix sockets."""
        if inside.startswith("/var/run/"):  # a link, which from outside leads to the host's /run
            inside = inside.removeprefix("/var")
        return Path(f"/proc/{self.holder}/root{inside}")

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Nothing of ours but what is handed over: no proxy, no kubeconfig of the user."""
        return {"PATH": self.path_variable, "HOME": str(self.root), "TMPDIR": str(self.root / "tmp"), **more}

    def command(self, arguments: Sequence[str], *, folder: Path | None = None) -> list[str]:
        """The command that runs ``arguments`` in the machine."""
        enter = ["nsenter", f"--mount=/proc/{self.holder}/ns/mnt", f"--pid=/proc/{self.holder}/ns/pid", "--"]
        return [*enter, "env", f"--chdir={folder or self.root}", *arguments]

    def in_cluster(self, arguments: Sequence[str], account: Path) -> list[str]:
        """``arguments`` with the files of ``account`` (token, ca.crt, namespace) where a pod finds its own."""
        script = f'mount --bind "$0" {_SERVICE_ACCOUNT} && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, str(account), *arguments]

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout: float = 30.0 * PATIENCE,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; the caller looks at ``returncode``."""
        return subprocess.run(
            self.command(arguments),
            env=self.environment(environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(
        self, arguments: Sequence[str], *, log: IO[bytes], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start in the background, output to ``log``. The process is a gate; ``child_of`` it is the program itself."""
        gate = subprocess.Popen(
            self.command(arguments),
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the test run, which then ends the machine
        )
        self._started.append(gate)
        return gate

    def close(self) -> None:
        """End every process of the machine, then remove its control groups and its folder."""
        atexit.unregister(self.close)
        if self._unshare is not None:
            assert self._unshare.stdin is not None
            assert self._unshare.stdout is not None
            self._unshare.stdin.close()
            self._unshare.stdout.close()
            try:
                self._unshare.wait(timeout=10 * PATIENCE)
            except subprocess.TimeoutExpired:
                self._unshare.kill()
                self._unshare.wait()
        for gate in self._started:
            gate.wait(timeout=10 * PATIENCE)
        for group in self._groups():
            remove_group(group)
        shutil.rmtree(self.root, ignore_errors=True)
        self._lock.close()

    def _groups(self) -> list[Path]:
        return [hierarchy / self.name for hierarchy in hierarchies()]


def hierarchies() -> list[Path]:
    """Where control groups are: a file system for each controller in version 1, one for all in version 2.

    The kubelet with version 1 leaves the second version's alone, but runc makes a group for each container there as
    well.
    """
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [Path(fields[1]) for fields in mounts if fields[2] in {"cgroup", "cgroup2"}]


def remove_group(group: Path) -> None:
    """Remove a control group with all below it, once their processes are gone."""
    if group.is_dir():
        wait_until(lambda: _removed(group), f"{group} is empty and removed", 20)


def _removed(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()
    return True


class EndedError(Exception):
    """A process ended before it was ready."""


def child_of(parent: subprocess.Popen[Any]) -> int:
    """The only child of a process, as soon as there is one. Raises ``EndedError`` when the process ends without."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")

    def child() -> int:
        found = children.read_text().split()
        if not found and parent.poll() is not None:
            raise EndedError(f"it ended with status {parent.returncode}")
        return int(found[0])

    return wait_until(child, f"process {parent.pid} has a child", 10, interval=0.002)


def sweep() -> None:
    """Remove what a killed test run left: its machine ended with it, its folder and control groups did not."""
    for root in Path(FOLDER).glob(f"{PREFIX}*"):
        try:
            lock = _Lock(root)
        except BlockingIOError:
            continue  # another test run is alive
        for hierarchy in hierarchies():
            remove_group(hierarchy / root.name)
        shutil.rmtree(root, ignore_errors=True)
        lock.close()


def leftovers(root: Path) -> list[str]:
    """Processes, mounts, sockets and control groups that carry the name of a machine that ended."""
    found = [f"process {pid}: {line}" for pid, line in _processes() if str(root) in line]
    for table in ("/proc/self/mounts", "/proc/net/unix"):
        found += [f"{table}: {line}" for line in Path(table).read_text().splitlines() if str(root) in line]
    places = [root, *(hierarchy / root.name for hierarchy in hierarchies())]
    return found + [f"{place} is there" for place in places if place.exists()]


def _processes() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            yield int(entry.name), words.replace(b"\0", b" ").decode(errors="replace")[:2000]


class _Lock:
    """Holds a folder until it is closed or this process ends. Raises ``BlockingIOError`` where another process does."""

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(self._handle)
            raise

    def close(self) -> None:
        """Let go of it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
