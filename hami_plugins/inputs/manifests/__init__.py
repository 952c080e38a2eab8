"""Manifest files to documents that know where in which file they and their parts stand."""

from hami_plugins.inputs.manifests.reader import (
    Document,
    Path,
    Text,
    mappings,
    read,
    spelled,
)

__all__ = [
    "Document",
    "Path",
    "Text",
    "mappings",
    "read",
    "spelled",
]
