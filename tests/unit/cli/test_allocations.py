"""``allocation-policy``: its output for each audience."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import yaml

from tests.unit.cli.conftest import Type


def test_it_prints_one_policy_for_all_systems_and_its_binding(type_in: Type) -> None:
    policy, binding = yaml.safe_load_all(type_in("allocation-policy").out)
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    changes, *_ = (each["expression"] for each in policy["spec"]["matchConditions"])
    for key in ("volcano.sh/vgpu-ids-new", "hami.io/vgpu-node", "AWS_NEURON_IDS", "device-allocated"):
        assert key in changes


def test_it_prints_a_systems_own_keys_alone(type_in: Type) -> None:
    out = type_in("allocation-policy", "neuron", "--name", "mine").out
    assert "AWS_NEURON_IDS" in out
    assert "volcano.sh/" not in out
    assert "name: mine" in out


def test_further_accounts_are_trusted(type_in: Type) -> None:
    said = json.loads(type_in("allocation-policy", "volcano", "--user", "jane", "--group", "ops", "-o", "json").out)
    accounts = said["items"][0]["spec"]["matchConditions"][-1]["expression"]
    for name in ("jane", "ops", "system:masters", "system:serviceaccount:volcano-system:volcano-scheduler"):
        assert f'"{name}"' in accounts


def test_the_command_of_the_charts_page_prints_what_the_page_says(type_in: Type) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", Path("charts/README.md").read_text(), re.DOTALL | re.MULTILINE)
    program, *words = shlex.split(block.partition(">")[0])
    assert program == "hami-plugins"
    policy, _ = yaml.safe_load_all(type_in(*words).out)
    accounts = policy["spec"]["matchConditions"][-1]["expression"]
    assert '"system:serviceaccount:gpu:volcano-vgpu-agent"' in accounts


def test_an_unknown_system_is_refused_with_those_that_are_known(type_in: Type) -> None:
    said = type_in("allocation-policy", "yunikorn")
    assert said.code == 2
    assert "yunikorn: unknown system; the systems are hami, koordinator, neuron, volcano" in said.err


def test_the_allocators_policy_is_about_the_vendors_of_its_settings(type_in: Type, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("vendors: [Ascend910B4]\nservice: {name: mine, namespace: gpu}\n")
    policy, binding = yaml.safe_load_all(type_in("allocator", "policy", "--config", str(config), "--user", "jane").out)
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    changes, _, accounts = (each["expression"] for each in policy["spec"]["matchConditions"])
    for key in ("huawei.com/Ascend910B4", "hami.io/Ascend910B4-devices-to-allocate", "hami.io/bind-phase"):
        assert f'"{key}"' in changes
    assert "volcano.sh/" not in changes
    assert '"system:serviceaccount:gpu:mine"' in accounts
    assert '"jane"' in accounts


def test_the_allocators_policy_for_nodes_is_another_document(type_in: Type) -> None:
    said = json.loads(type_in("allocator", "policy", "--nodes", "--group", "ops", "--name", "n", "-o", "json").out)
    policy = said["items"][0]
    assert policy["metadata"]["name"] == "n"
    changes, accounts = (each["expression"] for each in policy["spec"]["matchConditions"])
    assert '"volcano.sh/node-vgpu-register"' in changes
    assert '"ops"' in accounts


def test_the_policy_without_a_process_is_still_printed(type_in: Type) -> None:
    assert "MutatingAdmissionPolicy" in type_in("allocator", "stale-policy").out
