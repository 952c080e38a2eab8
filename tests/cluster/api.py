"""A client of the API server as thin as can be: paths and JSON, nothing in between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import urllib3.exceptions

Object = dict[str, Any]


class ApiError(Exception):
    """The API server refused (``status`` is HTTP's) or could not be reached (0)."""

    def __init__(self, text: str, *, status: int, body: str) -> None:
        super().__init__(text)
        self.status = status
        self.body = body


class Api:
    """The owner of ``token``, at the API server at ``url``. Safe to use from several threads.

    ``user`` and ``groups`` are impersonated, where they are given; a ServiceAccount has its usual groups. The embedded
    API server needs neither ``ca`` nor ``token``.
    """

    def __init__(
        self, url: str, *, ca: Path | None = None, token: str = "", user: str = "", groups: Sequence[str] = ()
    ) -> None:
        self.url = url
        self.token = token
        self._acting = [("Impersonate-User", user), *(("Impersonate-Group", each) for each in groups)] if user else []
        self._pool = urllib3.PoolManager(
            ca_certs=None if ca is None else str(ca), maxsize=8, retries=False, timeout=urllib3.Timeout(10, read=30)
        )

    def request(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The body of a successful answer. Raises ``ApiError`` for any other."""
        headers = urllib3.HTTPHeaderDict({"Content-Type": content_type})
        if self.token:
            headers.add("Authorization", f"Bearer {self.token}")
        for header, value in self._acting:
            headers.add(header, value)
        target = self.url + path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = self._pool.request(method, target, body=json.dumps(body) if body else None, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(f"{method} {path}: {error}", status=0, body="") from error
        if answer.status >= 300:
            text = answer.data.decode(errors="replace")
            raise ApiError(f"{method} {path}: {answer.status} {text.strip()}", status=answer.status, body=text)
        return answer.data

    def get(self, path: str, **query: str) -> Object:
        answer: Object = json.loads(self.request("GET", path, query=query))
        return answer

    def find(self, path: str) -> Object | None:
        """The object at ``path``, ``None`` where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Object]:
        """All objects of a collection; ``labelSelector`` and ``fieldSelector`` as keywords."""
        return list(self.get(path, **query).get("items") or [])

    def create(self, path: str, body: Object) -> Object:
        answer: Object = json.loads(self.request("POST", path, body))
        return answer

    def replace(self, path: str, body: Object) -> Object:
        answer: Object = json.loads(self.request("PUT", path, body))
        return answer

    def merge_patch(self, path: str, body: Object) -> Object:
        answer: Object = json.loads(self.request("PATCH", path, body, content_type="application/merge-patch+json"))
        return answer

    def delete(self, path: str, *, grace: int | None = None) -> None:
        """Delete one object or a whole collection; one that is gone already is fine."""
        body: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", path, body)
        except ApiError as error:
            if error.status != 404:
                raise

    def text(self, path: str, **query: str) -> str:
        """What a subresource such as a log says."""
        return self.request("GET", path, query=query).decode(errors="replace")

    def close(self) -> None:
        self._pool.clear()
