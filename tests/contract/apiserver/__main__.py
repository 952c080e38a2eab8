"""``python -m tests.contract.apiserver [url,token,ca]``: the table of all cases, and exit code 1 if one is not kept."""

import os
import sys
from pathlib import Path

from hami_plugins.sandbox.apiserver import ApiServer
from tests.contract.apiserver import Api, outcomes, table

REAL = "HAMI_PLUGINS_REAL_API"


def real_api(place: str) -> Api:
    """A client for ``<url>,<token>,<ca file>``."""
    url, token, ca = place.split(",")
    return Api(url, token=token, ca=Path(ca))


def main() -> int:
    place = (sys.argv[1:] or [os.environ.get(REAL, "")])[0]
    with ApiServer() as server:
        embedded = outcomes(lambda: Api(server.url))
    real = outcomes(lambda: real_api(place)) if place else []
    sys.stdout.write(table(embedded, real) + "\n")
    return int(any(outcome.why for outcome in (*embedded, *real)))


if __name__ == "__main__":
    sys.exit(main())
