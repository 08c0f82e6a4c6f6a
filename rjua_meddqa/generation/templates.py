"""Question templates (paper, Table 4): the bundled `templates.yaml` and users' files.

A template is a text with placeholders from a fixed list, which are replaced in one pass without attribute access,
format specification or evaluation.
"""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from rjua_meddqa.data_files import read_mapping, read_words

BUNDLED = Path(__file__).with_name("templates.yaml")
KEY, TWO_KEYS, ROW, TWO_ROWS, TABLE = "key", "two_keys", "row", "two_rows", "table"
_ROW_FIELDS = ("item", "result", "range", "status")
PLACEHOLDERS = {
    KEY: ("key", "value"),
    TWO_KEYS: ("key1", "value1", "key2", "value2"),
    ROW: _ROW_FIELDS,
    TWO_ROWS: tuple(f"{name}{number}" for number in (1, 2) for name in _ROW_FIELDS),
    TABLE: ("items", "item_count", "abnormal_items", "abnormal_count"),
}
SUBJECTS = {KEY: ("key",), TWO_KEYS: ("key1", "key2"), ROW: ("item",), TWO_ROWS: ("item1", "item2"), TABLE: ()}
_FIELDS = {"about", "task", "answer_type", "questions", "answer", "sentence", "only", "released"}
_REQUIRED = ("about", "task", "answer_type", "questions", "answer")


@dataclass(frozen=True)
class Template:
    """One kind of question. The comments in `templates.yaml` explain the fields."""

    name: str
    about: str
    task: str
    answer_type: str
    questions: tuple[str, ...]
    answer: str
    sentence: str
    only: tuple[str, ...] = ()
    released: bool = False


@dataclass(frozen=True)
class Templates:
    """All templates by name, and the words of their questions."""

    by_name: Mapping[str, Template]
    words: Mapping[str, tuple[str, ...]]
    absent_items: tuple[str, ...]

    def select(self, forms: str) -> tuple[Template, ...]:
        """Select "released" or "all" templates, or comma-separated names. Raises ConfigError for an unknown name."""
        if forms == "all":
            return tuple(self.by_name.values())
        if forms == "released":
            return tuple(template for template in self.by_name.values() if template.released)
        names = [name.strip() for name in forms.split(",")]
        for name in names:
            if name not in self.by_name:
                raise ConfigError(f"form {name!r} is unknown. Allowed: released, all, {', '.join(self.by_name)}.")
        return tuple(self.by_name[name] for name in dict.fromkeys(names))


@cache
def split_text(text: str) -> tuple[tuple[str, str | None], ...]:
    """Split a template into (literal, following placeholder or None).

    Raises:
        ValueError: a brace is unmatched, or a placeholder is not a bare name.
    """
    pieces = []
    for literal, name, specification, conversion in string.Formatter().parse(text):
        if name is not None and (specification or conversion or not name.isidentifier()):
            raise ValueError(f"placeholder {{{name}}} is not a bare name")
        pieces.append((literal, name))
    return tuple(pieces)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace every placeholder in `text` by its value."""
    return "".join(literal + ("" if name is None else values[name]) for literal, name in split_text(text))


def load_templates(*user_files: Path) -> Templates:
    """Load the bundled templates and those of users' files (same layout, YAML or JSON).

    Raises:
        InputError: a file has another layout, a placeholder is unknown, or a name exists already.
    """
    by_name: dict[str, Template] = {}
    words: dict[str, tuple[str, ...]] = {}
    absent: tuple[str, ...] = ()
    for path in (BUNDLED, *user_files):
        content = read_mapping(path)
        unknown = set(content) - {"words", "templates", "absent_items"}
        if unknown:
            raise InputError(
                f"{path}: section {sorted(unknown)[0]!r} is unknown. Allowed: words, templates, absent_items."
            )
        for name, choices in _section(content, "words", path).items():
            words[name] = _read_word(name, choices, words, path)
        absent += read_words(content.get("absent_items", []), f"{path}, absent_items")
        for name, entry in _section(content, "templates", path).items():
            if name in by_name:
                raise InputError(f"{path}: template {name!r} exists already. Rename yours.")
            by_name[name] = _read_template(name, entry, words, f"{path}, template {name!r}")
    return Templates(by_name, words, tuple(dict.fromkeys(absent)))


def _section(content: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = content.get(name) or {}
    if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
        raise InputError(f"{path}: section {name!r} is not a mapping from names. See {BUNDLED}.")
    return section


def _read_word(name: str, choices: Any, words: Mapping[str, tuple[str, ...]], path: Path) -> tuple[str, ...]:
    """The choices of one word. Users' files add to the bundled ones."""
    where = f"{path}, word {name!r}"
    taken = {placeholder for names in PLACEHOLDERS.values() for placeholder in names}
    if not name.isidentifier() or name in taken:
        raise InputError(
            f"{where}: {name!r} is not usable. Expected a Python identifier that is not a placeholder "
            f"({', '.join(sorted(taken))})."
        )
    found = read_words(choices, where, allow_empty=True)
    if not found:
        raise InputError(f"{where}: the list is empty. Add a word.")
    return tuple(dict.fromkeys((*words.get(name, ()), *found)))


def _read_template(name: str, entry: Any, words: Mapping[str, Any], where: str) -> Template:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected a mapping with {', '.join(_REQUIRED)}. See {BUNDLED}.")
    unknown, missing = set(entry) - _FIELDS, [field for field in _REQUIRED if field not in entry]
    if unknown or missing:
        what = f"lacks {missing[0]!r}" if missing else f"has an unknown field {sorted(map(str, unknown))[0]!r}"
        raise InputError(f"{where}: {what}. The fields are {', '.join(sorted(_FIELDS))}.")
    about = entry["about"]
    if not isinstance(about, str) or about not in PLACEHOLDERS:
        raise InputError(f"{where}: about is {about!r}. Allowed: {', '.join(PLACEHOLDERS)}.")
    texts: dict[str, Any] = {
        field: entry.get(field, entry["answer"]) for field in ("task", "answer_type", "answer", "sentence")
    }
    for field, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}: {field} is {text!r}. Expected a text.")
    if not isinstance(entry.get("released", False), bool):
        raise InputError(f"{where}: released is {entry['released']!r}. Allowed: true, false.")
    questions = read_words(entry["questions"], f"{where}, questions")
    if not questions:
        raise InputError(f"{where}: questions is empty. Add one.")
    allowed = (*PLACEHOLDERS[about], *words)
    for text in (*questions, texts["answer"], texts["sentence"]):
        _check_placeholders(text, allowed, where)
    _check_subjects(questions, about, bool(entry.get("only")), where)
    only = read_words(entry.get("only", []), f"{where}, only")
    return Template(
        name=name, about=about, questions=questions, only=only, released=entry.get("released", False), **texts
    )


def _check_placeholders(text: str, allowed: tuple[str, ...], where: str) -> None:
    try:
        names = [name for _, name in split_text(text) if name is not None]
    except ValueError as error:
        raise InputError(f"{where}: {text!r}: {error}. Write a literal brace twice: {{{{ or }}}}.") from None
    for name in names:
        if name not in allowed:
            raise InputError(f"{where}: {text!r}: placeholder {{{name}}} is unknown. Allowed: {', '.join(allowed)}.")


def _check_subjects(questions: tuple[str, ...], about: str, limited: bool, where: str) -> None:
    """A question must name its subject, unless the template is limited to certain keys or items by `only`."""
    for text in questions:
        named = {name for _, name in split_text(text)}
        missing = [subject for subject in SUBJECTS[about] if subject not in named]
        if missing and not limited:
            raise InputError(f"{where}: {text!r} does not contain {{{missing[0]}}}. Insert it, or add `only: [...]`.")
