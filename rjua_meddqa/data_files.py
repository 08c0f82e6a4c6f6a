"""YAML and JSON files that users write: read strictly, as data only, with a name given twice refused."""

import json
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import InputError


class _StrictLoader(yaml.SafeLoader):
    """The safe loader; a name that stands twice in a mapping is an error there, not the last one's victory."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        _refuse_repeated([name for name in names if isinstance(name, str)])
        return super().construct_mapping(node, deep=deep)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a `.yaml`, `.yml` or `.json` file.

    Raises:
        InputError: the file is missing, is not UTF-8, does not parse, holds a name twice or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}); check the file") from None
    try:
        if path.suffix.lower() == ".json":
            content = json.loads(text, object_pairs_hook=_strict_object)
        else:
            content = yaml.load(text, Loader=_StrictLoader)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: does not parse ({' '.join(str(error).split())}); correct the file") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError(f"{path}: expected a mapping from names, found {type(content).__name__}; see the bundled file")
    return content


def read_words(value: Any, where: str, allow_empty: bool = False) -> tuple[str, ...]:
    """A list of words from such a file. Raises InputError: it is no list of texts, or one is empty."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(f"{where}: expected a list of texts, found {value!r}; write numbers and dates in quotes")
    if not allow_empty and not all(word.strip() for word in value):
        raise InputError(f"{where}: an empty text in {value!r}; remove it")
    return tuple(value)


def _strict_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_repeated([name for name, _ in pairs])
    return dict(pairs)


def _refuse_repeated(names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{', '.join(map(repr, repeated))} occurs twice")
