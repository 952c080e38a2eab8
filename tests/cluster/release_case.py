"""``make release-check``: the charts and images of a release, and nothing of the tree, on the real node.

``RELEASE`` names the folder that ``make dist`` made. The module is not collected by itself: without a release there is
nothing to run.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.charted import Charted, import_archive
from tests.cluster.helm import Helm, everything, wait_as_before
from tests.cluster.node import Node
from tests.cluster.slices import amiss, pods, settled, volcano_pod
from tests.cluster.volcano import CONFIGURATION, Volcano

FOLDER = Path(os.environ["RELEASE"]).absolute()


@pytest.fixture
def release(node: Node, volcano: Volcano, programs: Mapping[str, Path], tmp_path: Path) -> Iterator[Charted]:
    """The umbrella chart's archive, before Volcano."""
    for archive in sorted((FOLDER / "images").glob("*.tar")):
        import_archive(node, archive)
    (chart,) = (FOLDER / "charts").glob("hami-plugins-*.tgz")
    place = f"released-{secrets.token_hex(3)}"
    node.plane.create_namespace(place)
    helm = Helm(programs["helm4"], tmp_path / "helm", node.plane.admin_kubeconfig)
    found = Charted(node, helm, place, chart=chart)
    volcano.configure(found.scheduler_conf())
    volcano.restart_scheduler()
    yield found
    volcano.configure(CONFIGURATION)
    volcano.restart_scheduler()
    if found.installed:
        found.uninstall()
    node.plane.clear_namespace(place)
    node.plane.api.delete(f"/api/v1/namespaces/{place}")


@pytest.mark.usefixtures("kube_scheduler")
def test_a_release_is_installed_proven_used_and_removed(release: Charted, namespace: str) -> None:
    api = release.plane.api
    before = everything(api)
    release.install()
    said = release.helm.run("test", "one", "--namespace", release.namespace, "--timeout", "120s")
    assert "Phase:          Succeeded" in said
    api.create(pods(namespace), volcano_pod("first"))
    (pod,) = settled(release.plane, namespace, ["first"])
    assert not amiss(release.plane, pod)
    release.plane.clear_namespace(namespace)
    release.uninstall()
    wait_as_before(api, before)
