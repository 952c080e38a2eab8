"""CEL expressions about devices, with the variables and functions of Kubernetes."""

import pytest

from hami_plugins.engine.claims.selectors import NotEvaluatedError, SelectorError, compiled
from hami_plugins.model.claims import DeviceCapacity, SemanticVersion, SliceDevice

DEVICE = SliceDevice(
    name="g",
    attributes={
        "model": "Tesla A100",
        "n": 3,
        "v": SemanticVersion("1.10.0"),
        "beta": SemanticVersion("1.10.0-rc.2"),
        "other.io/ok": True,
    },
    capacity={"memory": DeviceCapacity(80 * 2**30 * 10**9), "part": DeviceCapacity(10**8)},
    shared=True,
)
OF = 'device.attributes["d.io"]'
HAS = 'device.capacity["d.io"]'


def accepts(expression: str) -> bool:
    """Whether the device is chosen."""
    return compiled(expression).accepts(DEVICE, "d.io")


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "d.io"',
        "device.allowMultipleAllocations",
        f'{OF}.model == "Tesla A100"',
        f'{OF}["model"].startsWith("Tesla") && {OF}.model.endsWith("100") && {OF}.model.contains("A")',
        f'{OF}.model.matches("^Tesla.*0$")',
        f'{OF}.model.lowerAscii() == "tesla a100" && {OF}.model.upperAscii() == "TESLA A100"',
        f'{OF}.model in ["x", "Tesla A100"]',
        f"{OF}.n >= 3 && {OF}.n % 2 == 1",
        f"has({OF}.n) && !has({OF}.m)",
        f'"n" in {OF}',
        '!("n" in device.attributes["nobody.io"])',
        'device.attributes["other.io"].ok',
        f"[1, 2].exists(x, x == {OF}.n - 1)",
        f'cel.bind(of, {OF}, of.n == 3 && cel.bind(m, of.model, m.startsWith("Te")))',
        f'{HAS}.memory.isGreaterThan(quantity("79Gi")) && {HAS}.memory.isLessThan(quantity("81Gi"))',
        f'{HAS}.memory.compareTo(quantity("80Gi")) == 0 && {HAS}.memory == quantity("81920Mi")',
        f'{HAS}.memory.sub(quantity("1Gi")).add(quantity("2Gi")) == quantity("81Gi")',
        f"{HAS}.memory.add(1).isGreaterThan({HAS}.memory) && {HAS}.memory.sub(1).isLessThan({HAS}.memory)",
        f"{HAS}.memory.sign() == 1 && {HAS}.memory.isInteger() && !{HAS}.part.isInteger()",
        f"{HAS}.memory.asInteger() == 85899345920 && {HAS}.part.asApproximateFloat() < 0.2",
        'isQuantity("1Gi") && !isQuantity("lots")',
        'isSemver("1.0.0") && !isSemver("1.0")',
        f'{OF}.v.isGreaterThan(semver("1.9.9")) && {OF}.v.compareTo(semver("1.10.0+build")) == 0',
        f'{OF}.beta.isLessThan({OF}.v) && {OF}.beta.isGreaterThan(semver("1.10.0-rc.1"))',
        f'{OF}.beta.isLessThan(semver("1.10.0-rc.10")) && {OF}.beta.isGreaterThan(semver("1.10.0-9"))',
        f"{OF}.v.major() == 1 && {OF}.v.minor() == 10 && {OF}.v.patch() == 0",
        f'{OF}.nope == "x" || true',
    ],
)
def test_what_holds(expression: str) -> None:
    """Each is true of the device."""
    assert accepts(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("device.driver ==", "it does not compile: .*mismatched input"),
        ("nope(1)", "it does not compile: undeclared reference to nope"),
        ("x == 1", "it does not compile: undeclared reference to x"),
        ("cel.bind(x, 1)", "it does not compile: cel.bind takes a name, a value and an expression"),
        ("cel.bind(x, 1, x == 1", "it does not compile: a parenthesis is not closed"),
        (f"{OF}.nope == 1", "no such key: nope"),
        ('device.attributes["nobody.io"].n == 1', "no such key: n"),
        (f"!{OF}.n", "no such overload"),
        (f"{OF}.n", "the result is 3, and not true or false"),
    ],
)
def test_what_stops_the_scheduler(expression: str, why: str) -> None:
    """What does not compile, and what ends in an error for this device."""
    with pytest.raises(SelectorError, match=why):
        accepts(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f'{OF}.?model.orValue("") == ""',
        f"size({OF}.model) == 10",
        f'{OF}.model.split(" ")[0] == "Tesla"',
        '"d.io" in device.attributes',
        "device.capacity == {}",
        f'{OF}.n.isLessThan(semver("2.0.0"))',
        f'{OF}.v.isLessThan(quantity("1"))',
        f"{HAS}.part.asInteger() == 0",
        f"{HAS}.memory.major() == 1",
        f"{OF}.v.sign() == 1",
        f"{HAS}.memory.add({OF}.v) == {HAS}.memory",
        'semver("1.0") == semver("1.0.0")',
        'quantity("lots") == quantity("1")',
    ],
)
def test_what_is_not_evaluated_is_not_guessed(expression: str) -> None:
    """Kubernetes may take it."""
    with pytest.raises(NotEvaluatedError):
        accepts(expression)
