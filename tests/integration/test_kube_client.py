"""The reader of live clusters against an API server over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.port import Collection
from hami_plugins.kube.snapshot import live_objects

NODES = Collection("/api/v1/nodes", "Node")
QUEUES = Collection("/apis/scheduling.volcano.sh/v1beta1/queues", "Queue", optional=True)

Reply = tuple[int, dict[str, Any] | str]


class ApiServer:
    """Answers lists by a function of path and query, and remembers what it was asked."""

    def __init__(self, reply: Callable[[str, dict[str, str]], Reply]) -> None:
        self.asked: list[tuple[str, dict[str, str], str | None]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                server.asked.append((parts.path, query, self.headers.get("authorization")))
                status, body = reply(parts.path, query)
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[str, dict[str, str]], Reply]], ApiServer]]:
    servers: list[ApiServer] = []

    def start(reply: Callable[[str, dict[str, str]], Reply]) -> ApiServer:
        servers.append(ApiServer(reply))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def client_of(server: ApiServer, folder: Path) -> KubeClient:
    kubeconfig = folder / "config"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "a-token"}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return connect(kubeconfig=str(kubeconfig))


def items(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name}} for name in names]


def test_a_list_is_read_in_pages_and_items_get_their_kind(serve: Any, tmp_path: Path) -> None:
    def reply(path: str, query: dict[str, str]) -> Reply:
        if "continue" not in query:
            return 200, {"metadata": {"continue": "more"}, "items": items("a", "b")}
        return 200, {"metadata": {}, "items": items("c")}

    server = serve(reply)
    pages = list(client_of(server, tmp_path).pages(NODES, page_size=2))
    assert [[item["metadata"]["name"] for item in page] for page in pages] == [["a", "b"], ["c"]]
    assert {item["kind"] for page in pages for item in page} == {"Node"}
    assert [query for _, query, _ in server.asked] == [{"limit": "2"}, {"limit": "2", "continue": "more"}]


def test_the_token_of_the_kubeconfig_is_sent(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda path, query: (200, {"items": []}))
    list(client_of(server, tmp_path).pages(NODES))
    assert server.asked[0][2] == "Bearer a-token"


@pytest.mark.parametrize("status", [403, 404])
def test_a_custom_resource_that_is_not_there_or_forbidden_has_no_pages(serve: Any, tmp_path: Path, status: int) -> None:
    server = serve(lambda path, query: (status, {"message": "no"}))
    assert list(client_of(server, tmp_path).pages(QUEUES)) == []


def test_a_forbidden_list_of_nodes_is_an_error_with_the_servers_words(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda path, query: (403, {"message": "nodes is forbidden: User u cannot list"}))
    with pytest.raises(KubeError, match=r"/api/v1/nodes: 403 nodes is forbidden") as caught:
        list(client_of(server, tmp_path).pages(NODES))
    assert caught.value.status == 403
    assert len(server.asked) == 1


def test_an_overloaded_server_is_asked_again(serve: Any, tmp_path: Path) -> None:
    replies = iter([(429, {"message": "slow down"}), (503, {"message": "wait"}), (200, {"items": items("a")})])
    server = serve(lambda path, query: next(replies))
    assert len(next(client_of(server, tmp_path).pages(NODES))) == 1
    assert len(server.asked) == 3


def test_a_server_that_stays_overloaded_is_an_error_after_four_tries(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda path, query: (500, {"message": "broken"}))
    with pytest.raises(KubeError, match="500 broken"):
        list(client_of(server, tmp_path).pages(NODES))
    assert len(server.asked) == 4


def test_an_expired_list_is_read_on_with_the_token_that_the_server_offers(serve: Any, tmp_path: Path) -> None:
    def reply(path: str, query: dict[str, str]) -> Reply:
        match query.get("continue"):
            case None:
                return 200, {"metadata": {"continue": "old"}, "items": items("a")}
            case "old":
                return 410, {"message": "expired", "metadata": {"continue": "new"}}
            case _:
                return 200, {"metadata": {}, "items": items("b")}

    pages = list(client_of(serve(reply), tmp_path).pages(NODES))
    assert [item["metadata"]["name"] for page in pages for item in page] == ["a", "b"]


def test_an_answer_that_is_no_json_is_an_error_that_says_so(serve: Any, tmp_path: Path) -> None:
    with pytest.raises(KubeError, match="not JSON"):
        list(client_of(serve(lambda path, query: (200, "<html>")), tmp_path).pages(NODES))


def test_a_server_that_is_gone_is_an_error_that_names_it(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda path, query: (200, {}))
    client = client_of(server, tmp_path)
    server.close()
    with pytest.raises(KubeError, match=r"127\.0\.0\.1.*does not answer"):
        list(replace(client, attempts=1).pages(NODES))


def test_a_missing_kubeconfig_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(KubeError, match=r"kubeconfig .*nowhere cannot be used"):
        connect(kubeconfig=str(tmp_path / "nowhere"))
    broken = tmp_path / "broken"
    broken.write_text("clusters: [", encoding="utf-8")
    with pytest.raises(KubeError, match=r"kubeconfig .*broken cannot be used: while parsing"):
        connect(kubeconfig=str(broken))


def test_without_any_cluster_the_error_says_what_to_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeError, match="--snapshot FILE"):
        connect()


def test_a_collection_may_be_chosen_by_fields_on_every_page(serve: Any, tmp_path: Path) -> None:
    def reply(_path: str, query: dict[str, str]) -> Reply:
        more = {} if "continue" in query else {"continue": "more"}
        return 200, {"metadata": more, "items": items("a")}

    server = serve(reply)
    list(client_of(server, tmp_path).pages(replace(NODES, fields="reason=Evict,metadata.name=a")))
    assert [query["fieldSelector"] for _, query, _ in server.asked] == ["reason=Evict,metadata.name=a"] * 2


AUTOSCALER = "/api/v1/configmaps"


def test_a_live_snapshot_reads_every_collection_and_reports_progress(serve: Any, tmp_path: Path) -> None:
    def reply(path: str, query: dict[str, str]) -> Reply:
        if path.startswith("/apis/") or path == AUTOSCALER:
            return 404, {"message": "not there"}
        return 200, {"items": items(path.rsplit("/", 1)[1])}

    progress: list[tuple[str, int]] = []
    found = list(live_objects(client_of(serve(reply), tmp_path), seen=lambda *each: progress.append(each)))
    assert [item["kind"] for item in found] == ["Node", "Pod", "ResourceQuota"]
    assert progress == [("Node", 1), ("Pod", 1), ("ResourceQuota", 1)]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_claims_are_read_in_the_newest_version_that_the_server_has(serve: Any, tmp_path: Path, version: str) -> None:
    def reply(path: str, query: dict[str, str]) -> Reply:
        served = path.startswith(("/api/", f"/apis/resource.k8s.io/{version}/")) and path != AUTOSCALER
        return (200, {"items": items(path.rsplit("/", 1)[1])}) if served else (404, {"message": "no such resource"})

    server = serve(reply)
    found = [item["kind"] for item in live_objects(client_of(server, tmp_path))]
    assert found[3:] == ["ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"]
    tried = [path for path, *_ in server.asked if "resourceslices" in path]
    assert len(tried) == (1 if version == "v1" else 3)
