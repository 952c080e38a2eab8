"""What a vendor's own score becomes in the node's."""

from dataclasses import replace

from hami_plugins.engine.place import Placer
from hami_plugins.engine.registry import Registry
from hami_plugins.model.policy import DEFAULT_POLICY, NodePolicy
from hami_plugins.model.verdicts import Fit
from tests import acme, builders
from tests.golden import cases


@cases.each("hami-core/node-score-vendor.yaml")
def test_vendor_adds_what_its_vector_says(case: cases.Case) -> None:
    given = case.given
    scoring = replace(
        acme.SPEC,
        scoring=replace(
            acme.SPEC.scoring, score_node=lambda _: given["vendor_score"], is_neutral=given["policy_neutral"]
        ),
    )
    policy = replace(DEFAULT_POLICY, node=NodePolicy(given["policy"]), node_words=given["policy"])
    verdict = Placer(builders.a_demand(builders.a_request()), policy, Registry([scoring]))(builders.a_state())
    assert isinstance(verdict, Fit)
    assert verdict.score == case.expect["added"]
