"""JSON files and manifests.

A manifest is the `manifest.json` of a folder that a step wrote: an object with "kind" (which step), "governance" (the
class of the folder's content) and fields of that step.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST, atomic_file
from medvqa_core.governance import parse


def read_json(path: Path, remedy: str) -> Any:
    """The value in a UTF-8 JSON file. Raises InputError, ending in `remedy`, if it is missing or not valid JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {remedy}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); {remedy}") from None


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in a file. Raises InputError as `read_json`, and for other values."""
    found = read_json(path, remedy)
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(found).__name__}; {remedy}")
    return found


def write_json(path: Path, value: Any, *, private: bool = False, end: str = "\n", **layout: Any) -> None:
    """Write `value` as a JSON file atomically.

    Args:
        private: give the file mode 0600 (credentialed data).
        end: follows the value.
        layout: arguments of `json.dumps` in place of indent=1, ensure_ascii=False.

    Raises:
        OutputError: the file cannot be written.
    """
    text = json.dumps(value, **{"indent": 1, "ensure_ascii": False, **layout})
    with atomic_file(path, "w", private) as file:
        file.write(text + end)


def write_json_lines(path: Path, values: Iterable[Any], *, private: bool = False) -> None:
    """Write each of `values` as a line of JSON, atomically. Raises OutputError."""
    with atomic_file(path, "w", private) as file:
        file.writelines(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def read_manifest(
    folder: Path, remedy: str, kind: str | None = None, format: int | None = None, objects: Iterable[str] = ()
) -> dict[str, Any]:
    """The checked manifest of a folder.

    Args:
        kind, format: values that it must have; None: any.
        objects: fields that it must have, each an object.

    Raises:
        InputError: it is missing, invalid, of another kind or format, or lacks a field; the message ends in `remedy`.
        GovernanceError: it does not name a governance class.
    """
    path = folder / MANIFEST
    manifest = read_object(path, remedy)
    if (kind and manifest.get("kind") != kind) or (format and manifest.get("format") != format):
        expected = f"{kind} manifest" + (f" of format {format}" if format else "")
        raise InputError(f"{path}: not a {expected}; {remedy}")
    parse(manifest.get("governance", ""), str(path))
    for field in objects:
        if not isinstance(manifest.get(field), dict):
            raise InputError(f"{path}: no object {field!r}; {remedy}")
    return manifest


def find_manifest(folder: Path, remedy: str) -> dict[str, Any]:
    """As `read_manifest`, but an empty object if the folder has none."""
    return read_manifest(folder, remedy) if (folder / MANIFEST).exists() else {}


def write_manifest(folder: Path, manifest: Mapping[str, Any], **layout: Any) -> None:
    """Write the manifest of a folder. Arguments and errors as `write_json`."""
    write_json(folder / MANIFEST, manifest, **layout)


def plain(value: Any) -> Any:
    """`value` as read back from a JSON file: tuples as lists, keys as strings."""
    return json.loads(json.dumps(value))
