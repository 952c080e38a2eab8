"""What a plain YAML word means: the value that kubectl would send as JSON for it."""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

TAG: Final = "tag:yaml.org,2002:"
"""What ``!!`` stands for."""

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **{form: value for value, words in {True: ("true", "yes", "on"), False: ("false", "no", "off")}.items()
       for word in words for form in (word, word.capitalize(), word.upper())},
}  # fmt: skip
_NO_NUMBER: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
) | {".nan", ".NaN", ".NAN"}  # fmt: skip
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0b[01]+|0o?[0-7]+|0|[1-9][0-9]*)")
_OLD_OCTAL: Final = re.compile(r"(?<![0-9])0(?=[0-7])")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400
_WHOLE_FLOATS_END: Final = 1e21


def plain(text: str) -> Scalar:
    """The value of an unquoted word, as Kubernetes' YAML reader takes it (YAML 1.1, without dates and base 60).

    Raises ``ValueError`` for what JSON cannot hold.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _LONGEST_NUMBER:
        return text
    return _number(text)


def tagged(tag: str, text: str) -> Scalar:
    """The value of a word with an explicit tag (``!!str 1``). Raises ``ValueError`` for tags that Kubernetes lacks."""
    kind = tag.removeprefix(TAG)
    if tag == "!" or kind == "str":
        return text
    wanted: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
    if kind not in wanted:
        raise ValueError(f"the tag {tag[:60]!r} means nothing in a manifest; drop it")
    value = plain(text)
    if not isinstance(value, wanted[kind]) or isinstance(value, bool) is not (kind == "bool"):
        raise ValueError(f"{text[:60]!r} is no {kind}")
    return value


def _number(text: str) -> Scalar:
    if text in _NO_NUMBER:
        raise ValueError(f"{text} cannot be sent as JSON")
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits) is not None:
        whole = int(_OLD_OCTAL.sub("0o", digits, count=1), 0)
        if whole.bit_length() <= 64:
            return whole
        try:
            return _as_json(float(whole))
        except OverflowError:  # text, as the floats that are none
            return text
    if _FLOAT.fullmatch(text) is None:
        return text
    number = float(text)
    return _as_json(number) if math.isfinite(number) else text


def _as_json(number: float) -> int | float:
    """A finite number as Go writes it into JSON: whole ones without a point."""
    return int(number) if number.is_integer() and abs(number) < _WHOLE_FLOATS_END else number
