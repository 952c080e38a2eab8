"""The calls that a scheduler makes at an extender: JSON by POST, and an error of any kind is a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError

_SUCCESS: Final = 200


class ExtenderCalls:
    """``url`` is the extender's prefix, ``timeout`` that of a call in seconds."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(timeout=timeout, retries=False, maxsize=4)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def post(self, verb: str, body: Mapping[str, Any]) -> Any:
        """The reply as JSON values, or a text that says why there is none."""
        url = f"{self._url}/{verb}"
        sent = json.dumps(body, separators=(",", ":")).encode()
        try:
            answer = self._pool.request("POST", url, body=sent, headers={"Content-Type": "application/json"})
            if answer.status != _SUCCESS:
                return f"failed {verb} with extender at URL {url}, code {answer.status}"
            return json.loads(answer.data)
        except (HTTPError, ValueError) as error:
            return f'Post "{url}": {error}'
