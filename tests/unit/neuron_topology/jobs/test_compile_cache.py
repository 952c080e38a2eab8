"""Where compiled graphs are kept, and whether a training job finds what a precompile job has compiled."""

from __future__ import annotations

from typing import Any

import pytest

from neuron_topology.core.jobs import compile_cache
from neuron_topology.core.jobs.compile_cache import CompileCache
from tests.unit.neuron_topology.jobs.submitted import a_container, a_job, a_task

URL, FLAGS = "NEURON_COMPILE_CACHE_URL", "NEURON_CC_FLAGS"


def a_caching_job(env: dict[str, str], *mounts: tuple[str, str]) -> dict[str, Any]:
    """A job of one pod with these variables and mounts, each a path and a claim."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    places = [{"name": f"v{at}", "mountPath": path} for at, (path, _) in enumerate(mounts)]
    volumes = [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": claim}} for at, (_, claim) in enumerate(mounts)
    ]
    container = a_container(env=variables, volumeMounts=[{"name": "dshm", "mountPath": "/scratch"}, *places])
    return a_job(a_task(container, spec={"volumes": [{"name": "dshm", "emptyDir": {}}, *volumes]}))


@pytest.mark.parametrize(
    ("env", "mounts", "found"),
    [
        ({}, (), None),
        ({URL: "/cache"}, (("/cache", "fsx"),), CompileCache("/cache", "fsx")),
        ({URL: "/data/a/b"}, (("/data", "fsx"),), CompileCache("/data/a/b", "fsx")),
        ({URL: "/database"}, (("/data", "fsx"),), CompileCache("/database")),
        (
            {URL: "/data/graphs/x"},
            (("/data", "data"), ("/data/graphs", "cache")),
            CompileCache("/data/graphs/x", "cache"),
        ),
        ({URL: "/scratch/x"}, (), CompileCache("/scratch/x")),
        ({FLAGS: "--cache_dir=/cache -O1"}, (("/cache", "fsx"),), CompileCache("/cache", "fsx")),
        ({URL: "/a", FLAGS: "--cache_dir=/b"}, (), CompileCache("/b")),
        ({URL: "/a", FLAGS: "'"}, (), CompileCache("/a")),
        ({URL: "s3://bucket/graphs"}, (), CompileCache("s3://bucket/graphs")),
    ],
)
def test_the_cache_is_the_compilers_own_and_its_claim_that_of_the_innermost_mount(
    env: dict[str, str], mounts: tuple[tuple[str, str], ...], found: CompileCache | None
) -> None:
    assert compile_cache.caches(a_caching_job(env, *mounts)) == (frozenset({found}) if found else frozenset())


def test_a_cache_in_a_claim_or_in_a_bucket_outlives_the_pod() -> None:
    assert CompileCache("/cache", "fsx").lasts
    assert CompileCache("s3://bucket/graphs").lasts
    assert not CompileCache("/cache").lasts


def test_graphs_that_the_training_job_finds_are_not_lost() -> None:
    job = a_caching_job({URL: "/cache"}, ("/cache", "fsx"))
    assert compile_cache.lost(job, job) == ""


@pytest.mark.parametrize(
    ("precompiling", "training", "why"),
    [
        (a_caching_job({}), a_caching_job({}), "no container names a compile cache"),
        (
            a_caching_job({URL: "/c"}),
            a_caching_job({URL: "/c"}),
            "NEURON_COMPILE_CACHE_URL /c is in no volume of a claim",
        ),
        (
            a_caching_job({URL: "/c"}, ("/c", "fsx")),
            a_caching_job({URL: "/d"}, ("/d", "fsx")),
            "NEURON_COMPILE_CACHE_URL is /c for precompiling and /d for training",
        ),
        (
            a_caching_job({URL: "/c"}, ("/c", "fsx")),
            a_caching_job({URL: "/c"}, ("/c", "other")),
            "NEURON_COMPILE_CACHE_URL is /c for precompiling and /c for training",
        ),
        (a_caching_job({URL: "/c"}, ("/c", "fsx")), a_caching_job({}), "/c for precompiling and none for training"),
    ],
)
def test_graphs_that_the_training_job_does_not_find_are_told(
    precompiling: dict[str, Any], training: dict[str, Any], why: str
) -> None:
    assert why in compile_cache.lost(precompiling, training)
