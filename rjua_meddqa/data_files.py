"""Reads YAML and JSON files by users as data only. A repeated name is an error."""

import json
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import InputError


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, except that a repeated name in a mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        _check_unique([self.construct_object(key, deep=True) for key, _ in node.value])
        return super().construct_mapping(node, deep=deep)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the mapping in a `.yaml`, `.yml` or `.json` file.

    Raises:
        InputError: the file is missing, is not UTF-8, is not valid, repeats a name or does not hold a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}). Check the path.") from None
    try:
        if path.suffix.lower() == ".json":
            content = json.loads(text, object_pairs_hook=_strict_object)
        else:
            content = yaml.load(text, Loader=_StrictLoader)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: cannot be parsed ({' '.join(str(error).split())}). Correct the file.") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError(
            f"{path}: expected a mapping from names, found {type(content).__name__}. See the bundled file."
        )
    return content


def read_words(value: Any, where: str, allow_empty: bool = False) -> tuple[str, ...]:
    """Check a list of words. Raises InputError if it is not a list of texts, or one is empty."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(f"{where}: expected a list of texts, found {value!r}. Put numbers and dates in quotes.")
    if not allow_empty and not all(word.strip() for word in value):
        raise InputError(f"{where}: {value!r} contains an empty text. Remove it.")
    return tuple(value)


def _strict_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_unique([name for name, _ in pairs])
    return dict(pairs)


def _check_unique(names: list[Any]) -> None:
    texts = [name for name in names if isinstance(name, str)]
    repeated = sorted({name for name in texts if texts.count(name) > 1})
    if repeated:
        raise ValueError(f"{', '.join(map(repr, repeated))} occurs twice")
