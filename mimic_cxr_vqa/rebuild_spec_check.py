"""Checks of a rebuild spec, which may come from anybody.

A spec holds ids, the dataset's own questions, settings, counts and hashes. Any other field, file, column or metadata
is refused, because it could carry an answer or a report. No value of a spec chooses a file, address or model that is
opened. The card is checked by `check_card_matches` before a push.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
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
from medvqa_core.llm.options import SPELLED, EngineOptions
from mimic_cxr_vqa.card import CARD
from mimic_cxr_vqa.generation.answer_request import IMPRESSION, SETTINGS
from mimic_cxr_vqa.generation.batch_export import KIND as BATCH
from mimic_cxr_vqa.generation.engines import ENGINES
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.question_list import QUESTION_SLUGS, QUESTION_TEXTS
from mimic_cxr_vqa.release_writer import DEFAULTS
from mimic_cxr_vqa.schema import CATEGORIES, QUESTION_SCHEMA, SPLITS
from mimic_cxr_vqa.sources.registry import SOURCES
from mimic_cxr_vqa.statistics import TABLE_2_ROWS, SplitCounts
from mimic_cxr_vqa.workspace import TABLES

KIND, FORMAT = "recipe", 1  # the kind that manifests store
SCHEMA = pa.schema([QUESTION_SCHEMA.field(n) for n in ("qa_id", "study_id", "split", "category", "question")])
STATISTICS = "statistics.json"
QUESTIONS = {split: f"questions/{split}.parquet" for split in SPLITS}
FILES = (CARD, STATISTICS, *QUESTIONS.values())  # besides the manifest
VERSIONS = ("medvqa-hub", "pyarrow")
_QA_ID = rf"^s(?P<study>[0-9]{{1,18}})-(?:{'|'.join(QUESTION_SLUGS.to_pylist())})$"
_SHARD = rf"(?:qa|studies)/(?:{'|'.join(SPLITS)})-[0-9]{{5}}-of-[0-9]{{5}}\.parquet"
_WORD, _SHA256 = r"[\w.+-]{1,64}", "[0-9a-f]{64}"
_LONGEST = 200  # characters of a setting; a report is longer
_COUNTED = {  # every name in the statistics
    "table_1", "table_2", "figure_1", *SPLITS, "all", *SplitCounts.__annotations__, "labels", "questions",
    *TABLE_2_ROWS, *CATEGORIES,
}  # fmt: skip
_REMEDY = "Name a folder that medvqa-hub cxr rebuild-spec wrote, or a copy of a repository that holds one"


def read_rebuild_spec(folder: Path) -> dict[str, Any]:
    """Return the manifest of a rebuild spec after checking it and its files.

    Raises:
        InputError: the folder is not a rebuild spec, holds anything else, or a file is missing or changed.
    """
    manifest = read_manifest(folder, _REMEDY, KIND, FORMAT)
    check_manifest(manifest, folder / MANIFEST)
    for name, described in manifest["files"].items():
        path = folder / name
        if name not in FILES:
            raise InputError(f"{folder / MANIFEST}: {name!r} does not belong to a rebuild spec. {_REMEDY}")
        if not path.is_file():  # reading a pipe or a device may never end
            raise InputError(f"{path} is missing or is not a regular file. Download the spec again")
        if digest_file(path) != described["sha256"]:
            raise InputError(f"{path} does not have the sha256 that the manifest names. Download the spec again")
        if name in QUESTIONS.values():
            _check_questions(path)
        if name == STATISTICS and not _is_counts(read_object(path, _REMEDY)):
            raise InputError(f"{path} holds more than the counts of Tables 1 and 2. {_REMEDY}")
    return manifest


def choose_engine(manifest: Mapping[str, Any], given: EngineOptions) -> EngineOptions:
    """Return the engine of a rebuild: the one that the user names, else the spec's if it is not a language model.

    Texts are never sent to a model or an address because a spec names it.

    Raises:
        ConfigError: the answers are by a language model, which the user has to name, or came from batch files.
    """
    answers = manifest["answers"]
    engine, model = answers.get("engine"), answers.get("model")
    if engine == BATCH:
        raise ConfigError(
            f"the answers (model {model!r}) came from batch files, which --engine cannot recreate. Use medvqa-hub cxr "
            "questions, batch-export, batch-import and release, and compare with the sha256 in the spec's manifest.json"
        )
    if not given.engines and engine not in ENGINES:
        raise ConfigError(
            f"the answers are by engine {engine!r}, model {model!r}. Name where you run it with --engine: {SPELLED}"
        )
    return given if given.engines else replace(given, engines=(engine,))


def check_manifest(manifest: Mapping[str, Any], where: Path) -> None:
    """Raise InputError where a field is missing, unknown or holds an unexpected value."""
    for name in [*_FIELDS, *sorted(manifest.keys() - _FIELDS.keys() - {"kind", "format", "governance"})]:
        if name not in _FIELDS:
            raise InputError(f"{where}: {name!r} is not a field of a rebuild spec (format {FORMAT}). {_REMEDY}")
        if not _FIELDS[name](manifest.get(name)):
            raise InputError(f"{where}: {name} is missing or has an unexpected value. {_REMEDY}")


def _check_questions(path: Path) -> None:
    """Check that a table holds nothing but ids and the dataset's own words, in columns, texts and metadata."""
    try:
        found, metadata = pq.read_schema(path), pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read ({error}). Download the spec again") from None
    if found.remove_metadata() != SCHEMA:
        columns = ", ".join(f"{field.name} ({field.type})" for field in SCHEMA)
        raise InputError(f"{path}: expected exactly the columns {columns}")
    if not found.equals(SCHEMA, check_metadata=True) or metadata.keys() - {b"ARROW:schema"}:
        raise InputError(f"{path} carries metadata, which a rebuild spec must not. Write the spec again")
    rows = read_table(path)
    for name, allowed in (("split", SPLITS), ("category", CATEGORIES), ("question", QUESTION_TEXTS)):
        if not _all(pc.is_in(rows[name], pa.array(allowed))):
            raise InputError(f"{path}: column {name} has a value that this dataset does not use. Write the spec again")
    studies = pc.struct_field(pc.extract_regex(rows["qa_id"], _QA_ID), "study")
    if not _all(pc.fill_null(pc.equal(studies, pc.cast(rows["study_id"], pa.string())), False)):
        raise InputError(f"{path}: column qa_id has a value that is not a question id. Write the spec again")


def _all(values: Any) -> bool:
    return pc.all(values, skip_nulls=False, min_count=0).as_py()


Check = Callable[[Any], bool]


def _matches(pattern: str) -> Check:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _one_of(allowed: Any) -> Check:
    return lambda value: isinstance(value, str) and value in set(allowed)


def _mapping(is_key: Check, is_value: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(is_key(key) and is_value(of) for key, of in value.items())


def _record(**fields: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and value.keys() == fields.keys() and all(fields[n](value[n]) for n in fields)
    )


def _is_int(value: Any) -> bool:
    return type(value) is int


def _is_setting(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST and value.isprintable()
    return value is None or type(value) in (int, float)


def _is_counts(value: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() <= _COUNTED and all(map(_is_counts, value.values()))
    return value is None or _is_int(value)


_is_word, _is_hash = _matches(_WORD), _matches(_SHA256)
_is_optional_hash: Check = lambda value: value is None or _is_hash(value)  # noqa: E731
_is_files = _mapping(lambda name: True, _record(bytes=_is_int, sha256=_is_hash))
_FIELDS: dict[str, Check] = {
    "rows_governance": _one_of(Governance),
    "source": _one_of(SOURCES),
    "read_with": _record(
        labeler=_is_word, labels=_is_word, encoding=_is_word, sections=_is_optional_hash, studies=_is_optional_hash
    ),
    "seed": _is_int,
    "answers": _mapping(_one_of((*SETTINGS, IMPRESSION)), _is_setting),
    "written_with": lambda value: (
        isinstance(value, dict) and all(type(of) is type(DEFAULTS.get(name)) for name, of in value.items())
    ),
    "counts": _mapping(_is_word, _is_int),
    "splits": _mapping(_one_of(SPLITS), _record(rows=_is_int, shards=_is_int, studies=_is_int)),
    "versions": _mapping(_one_of(VERSIONS), _matches(r"[\w.+!-]{1,64}")),
    "tables": _record(**dict.fromkeys(TABLES, _is_hash)),
    "shards": _mapping(_matches(_SHARD), _is_hash),
    "files": lambda value: _is_files(value) and bool(value.keys() & set(QUESTIONS.values())),
}
