"""Wiring for every test: a marker for each folder, hypothesis profiles, logs as before, the seed of a failed run."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

FOLDERS = {
    "unit": "pure modules, in memory",
    "contract": "one promise, every implementation",
    "golden": "vectors kept as data",
    "integration": "processes over sockets, against the embedded cluster",
    "cluster": "the real Kubernetes, Volcano and Koordinator",
}
ROOT = Path(__file__).parent

# The speed of a machine does not depend on the code, so no profile has a deadline. Local runs have new examples every
# time. A change is judged by twice as many, the same each time, so that none is refused for an old fault; those are
# looked for on purpose, with HYPOTHESIS_PROFILE=search.
settings.register_profile("dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), max_examples=100, derandomize=True)
settings.register_profile("search", settings.get_profile("dev"), max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/golden that are generated")


@pytest.fixture
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether generated files are to be written instead of compared."""
    return bool(pytestconfig.getoption("update_golden"))


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command says how the whole process logs: here to a stream that ends with its test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For ``-n auto``: half as many workers again as cores, because many tests wait for processes and sockets."""
    cores = len(os.sched_getaffinity(0))
    return cores + (cores + 1) // 2


def pytest_configure(config: pytest.Config) -> None:
    for name, what in FOLDERS.items():
        config.addinivalue_line("markers", f"{name}: {what}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """A quiet run hides the seed, but a failure that depends on the order cannot be had again without it."""
    if exitstatus and config.pluginmanager.hasplugin("randomly"):
        terminalreporter.write_line(f"the same order again: --randomly-seed={config.getoption('randomly_seed')}")
