"""What a recipe may hold, checked before any of it is believed: it comes from somebody else, and is handed on.

Ids, the dataset's own words, settings, counts and hashes. No other field, file, column or metadata, which could carry
an answer or a report along; and nothing in it names a file, an address or a model that is read or asked. The card is
checked where it is handed on (`push recipe`): to be the one that this version writes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import MANIFEST
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_manifest, read_object
from medvqa_core.llm.options import SPELLED
from mimic_cxr_vqa.card import CARD
from mimic_cxr_vqa.generation.batch_export import KIND as BATCH
from mimic_cxr_vqa.generation.engines import ENGINES, IMPRESSION, SETTINGS
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.question_list import QUESTION_SLUGS, QUESTION_TEXTS
from mimic_cxr_vqa.release_writer import DEFAULTS
from mimic_cxr_vqa.schema import CATEGORIES, QUESTION_SCHEMA, SPLITS
from mimic_cxr_vqa.sources.registry import SOURCES
from mimic_cxr_vqa.statistics import TABLE_2_ROWS, SplitCounts
from mimic_cxr_vqa.workspace import TABLES

KIND, FORMAT = "recipe", 1
SCHEMA = pa.schema([QUESTION_SCHEMA.field(n) for n in ("qa_id", "study_id", "split", "category", "question")])
STATISTICS = "statistics.json"
QUESTIONS = {split: f"questions/{split}.parquet" for split in SPLITS}
FILES = (CARD, STATISTICS, *QUESTIONS.values())  # besides the manifest
VERSIONS = ("medvqa-hub", "pyarrow")
_QA_ID = rf"^s(?P<study>[0-9]{{1,18}})-(?:{'|'.join(QUESTION_SLUGS.to_pylist())})$"
_SHARD = rf"(?:qa|studies)/(?:{'|'.join(SPLITS)})-[0-9]{{5}}-of-[0-9]{{5}}\.parquet"
_WORD, _LONGEST = r"[\w.+-]{1,64}", 200  # a name; characters of a setting: a report is longer
_COUNTED = {  # every name in the statistics
    "table_1", "table_2", "figure_1", *SPLITS, "all", *SplitCounts.__annotations__, "labels", "questions",
    *TABLE_2_ROWS, *CATEGORIES,
}  # fmt: skip
_REMEDY = "name a folder that medvqa-hub cxr recipe wrote, or that a recipe's repository holds"


def read_rebuild_spec(folder: Path) -> dict[str, Any]:
    """The manifest of a recipe, checked with its files.

    Raises:
        InputError: it is none, holds more than a recipe does, or a file is missing or changed.
    """
    manifest = read_manifest(folder, _REMEDY, KIND, FORMAT)
    check_manifest(manifest, folder / MANIFEST)
    for name, described in manifest["files"].items():
        if name not in FILES:
            raise InputError(f"{folder / MANIFEST}: {name!r} is no file of a recipe; {_REMEDY}")
        if not (folder / name).is_file():  # of a pipe or a device a read may never end
            raise InputError(f"{folder / name}: is missing or no regular file; get the recipe again")
        if digest_file(folder / name) != described["sha256"]:
            raise InputError(f"{folder / name}: its content is not what the recipe describes; get it again")
        if name in QUESTIONS.values():
            _check_questions(folder / name)
        if name == STATISTICS and not _is_counts(read_object(folder / name, _REMEDY)):
            raise InputError(f"{folder / name}: it holds more than counts by the names of Tables 1 and 2; {_REMEDY}")
    return manifest


def choose_engines(manifest: Mapping[str, Any], named: Sequence[str]) -> Sequence[str]:
    """The engines of a rebuild: those that the user names, else the recipe's, where it is no language model.

    No text goes to a model or an address because a recipe names it.

    Raises:
        ConfigError: the answers are by a language model, which the user has to name; or they came in batch files.
    """
    answers = manifest["answers"]
    if answers.get("engine") == BATCH:
        raise ConfigError(
            f"the recipe's answers, by model {answers.get('model')!r}, came in batch files, which no --engine makes "
            "again: medvqa-hub cxr questions, batch-export, batch-import and release do, with the sha256 of its shards "
            "in the recipe's manifest.json to compare with"
        )
    if named:
        return named
    if answers.get("engine") in ENGINES:
        return [answers["engine"]]
    raise ConfigError(
        f"the recipe's answers are by engine {answers.get('engine')!r}, model {answers.get('model')!r}: say with "
        f"--engine where that model is for you: {SPELLED}"
    )


def check_manifest(manifest: Mapping[str, Any], where: Path) -> None:
    """Raise InputError where a field is missing, is not known here, or holds what it cannot."""
    for name in [*_FIELDS, *sorted(manifest.keys() - _FIELDS.keys() - set(_STATED))]:
        if name not in _FIELDS:
            raise InputError(f"{where}: {name!r} is no field of a recipe (of format {FORMAT}); {_REMEDY}")
        if not _FIELDS[name](manifest.get(name)):
            raise InputError(f"{where}: {name} is missing, or holds what no recipe holds; {_REMEDY}")


def _check_questions(path: Path) -> None:
    """Nothing but ids and the dataset's own words stands in the questions: no column, text or metadata carries more."""
    try:
        found, metadata = pq.read_schema(path), pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); get the recipe again") from None
    if found.remove_metadata() != SCHEMA:
        columns = ", ".join(f"{field.name} ({field.type})" for field in SCHEMA)
        raise InputError(f"{path}: a recipe's questions have the columns {columns}, no others")
    if not found.equals(SCHEMA, check_metadata=True) or metadata.keys() - {b"ARROW:schema"}:
        raise InputError(f"{path}: it carries metadata, which a recipe's questions do not; write the recipe again")
    rows = read_table(path)
    for name, allowed in (("split", SPLITS), ("category", CATEGORIES), ("question", QUESTION_TEXTS)):
        if not _all(pc.is_in(rows[name], pa.array(allowed))):
            raise InputError(f"{path}: column {name} holds what is no {name} of this dataset; write the recipe again")
    studies = pc.struct_field(pc.extract_regex(rows["qa_id"], _QA_ID), "study")
    if not _all(pc.fill_null(pc.equal(studies, pc.cast(rows["study_id"], pa.string())), False)):
        raise InputError(f"{path}: column qa_id holds what is no id of a question; write the recipe again")


def _all(values: Any) -> bool:
    return pc.all(values, skip_nulls=False, min_count=0).as_py()


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_hashes(value: Any, name: str) -> bool:
    return isinstance(value, dict) and all(re.fullmatch(name, key) and _is_hash(of) for key, of in value.items())


def _is_counts(value: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() <= _COUNTED and all(map(_is_counts, value.values()))
    return value is None or type(value) is int


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(_WORD, value) is not None


def _is_setting(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST and value.isprintable()
    return value is None or type(value) in (int, float)


def _is_answers(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() <= {*SETTINGS, IMPRESSION} and all(map(_is_setting, value.values()))


def _is_splits(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() <= set(SPLITS) and all(
        isinstance(of, dict) and of.keys() == {"rows", "shards", "studies"} and all(type(n) is int for n in of.values())
        for of in value.values()
    )  # fmt: skip


def _is_read_with(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"labeler", "labels", "encoding", "sections", "studies"}:
        return False
    texts = all(_is_word(value[name]) for name in ("labeler", "labels", "encoding"))
    return texts and all(value[name] is None or _is_hash(value[name]) for name in ("sections", "studies"))


def _is_written_with(value: Any) -> bool:
    return isinstance(value, dict) and all(type(of) is type(DEFAULTS.get(name)) for name, of in value.items())


def _is_files(value: Any) -> bool:
    described = isinstance(value, dict) and all(
        isinstance(of, dict)
        and of.keys() == {"bytes", "sha256"}
        and type(of["bytes"]) is int
        and _is_hash(of["sha256"])
        for of in value.values()
    )
    return described and bool(value.keys() & set(QUESTIONS.values()))


def _is_versions(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() <= set(VERSIONS) and all(
        isinstance(of, str) and re.fullmatch(r"[\w.+!-]{1,64}", of) for of in value.values()
    )  # fmt: skip


_STATED = ("kind", "format", "governance")  # which read_manifest checks
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "rows_governance": lambda value: isinstance(value, str) and value in set(Governance),
    "source": lambda value: isinstance(value, str) and value in SOURCES,
    "read_with": _is_read_with,
    "seed": lambda value: type(value) is int,
    "answers": _is_answers,
    "written_with": _is_written_with,
    "counts": lambda value: isinstance(value, dict) and all(_is_word(n) and type(value[n]) is int for n in value),
    "splits": _is_splits,
    "versions": _is_versions,
    "tables": lambda value: _is_hashes(value, r"\w+\.parquet") and value.keys() == set(TABLES),
    "shards": lambda value: _is_hashes(value, _SHARD),
    "files": _is_files,
}
