"""What a Kubernetes API server promises, as cases that run against any of them.

``CASES`` is the list, ``cases_of`` those of a release; each takes an ``Api``. The embedded server answers them in
every test run, a real one when
``HAMI_PLUGINS_REAL_API=<url>,<token>,<ca file>`` names it, or when ``tests/cluster`` brings one:

    @pytest.mark.parametrize("case", cases_of("1.36"), ids=str)
    def test_the_real_api_server_keeps_it(case: Case, control_plane: ControlPlane) -> None:
        with Api(control_plane.url, token=control_plane.admin_token, ca=control_plane.pki.ca) as api:
            case.check(api)

``python -m tests.contract.apiserver`` prints the table of both.
"""

from tests.contract.apiserver import custom, lists, objects, patching, pods, refusals, reviewed, watches, webhooks
from tests.contract.apiserver.api import Api
from tests.contract.apiserver.cases import CASES, EMBEDDED, Case, Outcome, cases_of, outcomes, table

__all__ = [
    "CASES",
    "EMBEDDED",
    "Api",
    "Case",
    "Outcome",
    "cases_of",
    "custom",
    "lists",
    "objects",
    "outcomes",
    "patching",
    "pods",
    "refusals",
    "reviewed",
    "table",
    "watches",
    "webhooks",
]
