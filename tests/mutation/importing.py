"""A pytest plugin that has one module imported with a change in it, named by the environment variable ``MUTATION``."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Final

from tests.mutation.operators import mutated, mutations
from tests.mutation.rooms import ROOT

MUTATION: Final = "HAMI_PLUGINS_TEST_MUTATION"


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType | None:
        return self._code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, path: str, code: CodeType) -> None:
        self._path = path
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin != self._path:
            return None
        spec.loader = _Loader(fullname, self._path, self._code)
        return spec


def _install(wanted: str) -> None:
    name, at, variant = wanted.split("\n")
    path = ROOT / name
    source = path.read_text()
    chosen = next(each for each in mutations(name, source) if (each.at, each.variant) == (int(at), int(variant)))
    sys.meta_path.insert(0, _Finder(str(path), compile(mutated(source, chosen), str(path), "exec")))


if MUTATION in os.environ:
    _install(os.environ[MUTATION])
