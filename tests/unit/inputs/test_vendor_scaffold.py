"""The package of a new vendor: which names it may have, and what its files are made of."""

import ast
import tomllib

import pytest
import yaml

from hami_plugins import examples
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import vendor_scaffold
from hami_plugins.vendors import BUILTIN


def files(name: str = "Zeta9", domain: str = "zeta.example.com") -> dict[str, str]:
    templates = {each: examples.vendor_template(each) for each in vendor_scaffold.TEMPLATES}
    return dict(vendor_scaffold.files(name, domain, templates))


def test_every_file_is_filled_in_and_can_be_read() -> None:
    found = files()
    assert "hami_zeta9/vendor.py" in found
    for path, text in found.items():
        assert "@" not in text, path
        if path.endswith(".py"):
            ast.parse(text)
        if path.endswith(".yaml"):
            assert yaml.safe_load(text), path
    assert yaml.safe_load(found["allocator.yaml"])["vendors"] == ["Zeta9"]
    entries = tomllib.loads(found["pyproject.toml"])["project"]["entry-points"]
    assert entries == {"hami_plugins.vendors": {"zeta9": "hami_zeta9.vendor:SPEC"}}


@pytest.mark.parametrize("name", ["Acme", "A1", "Z" + "z" * 29])
def test_a_name_of_letters_and_digits_is_fine(name: str) -> None:
    vendor_scaffold.checked(name, "acme.example", BUILTIN)


@pytest.mark.parametrize(
    ("name", "domain", "said"),
    [
        ("acme", "acme.example", "name 'acme': begin with a capital"),
        ("A", "acme.example", "name 'A': begin with a capital"),
        ("A" + "b" * 30, "acme.example", "2 to 30 letters"),
        ("../Acme", "acme.example", "begin with a capital"),
        ("Acme-1", "acme.example", "begin with a capital"),
        ("Acme", "acme", "--domain 'acme': not a domain"),
        ("Acme", "Acme.example", "not a domain"),
        ("Acme", "acme.example/card", "not a domain"),
        ("Acme", ".".join(["a" * 60] * 4), "not a domain"),
        ("Acme", "", "not a domain"),
        ("Nvidia", "acme.example", "name 'Nvidia': there is a vendor NVIDIA"),
        ("Acme", "hygon.com", "--domain 'hygon.com': vendor DCU has hygon.com/dcunum"),
    ],
)
def test_what_a_vendor_cannot_be_called_is_refused_with_the_reason(name: str, domain: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        vendor_scaffold.checked(name, domain, BUILTIN)
    assert said in str(caught.value)
