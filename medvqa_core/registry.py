"""Entries of registries: a name, and the place of its object as "module:name".

An entry is imported when it is used. So `--help` stays fast, and a module that is registered can import the interface
from the module that holds the registry.
"""

import importlib
from typing import Any


def load_entry(place: str) -> Any:
    """The object at `place`, such as "mimic_cxr_vqa.sources.openi:read".

    Raises:
        ImportError: the module does not exist, or lacks the name.
    """
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    if not hasattr(found, name):
        raise ImportError(f'the registry entry "{place}" is wrong: {module} lacks {name!r}. Expected "module:name"')
    return getattr(found, name)
