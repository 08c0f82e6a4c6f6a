"""Writes the release of a workspace: Parquet shards, a card and a manifest.

    release/qa/<split>-00000-of-00003.parquet        QA_SCHEMA, the rows of a study together
    release/studies/<split>-00000-of-00003.parquet   STUDY_SCHEMA, the studies of the same qa shard
    release/README.md       card, whose metadata makes `load_dataset(folder)` work without this package
    release/manifest.json   governance class, provenance, counts, Table 3, size and sha256 of every file

Images are not copied. The same inputs give the same bytes.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hub_cards.dataset_info import content_digest
from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_folder
from medvqa_core.json_files import read_object, write_manifest
from medvqa_core.llm.record import FILE, ModelRecord
from medvqa_core.progress import track
from medvqa_core.runs.predictions import PredictionStore
from mimic_cxr_vqa.answer_types import answer_types
from mimic_cxr_vqa.card import CARD, find_configs, write_card
from mimic_cxr_vqa.generation.answer_keys import answer_keys, hex_keys, open_answers, read_lint
from mimic_cxr_vqa.generation.lint import LABEL_CONFLICT, find_flags
from mimic_cxr_vqa.minimum_class import describe_files
from mimic_cxr_vqa.parquet_files import WRITING, iterate_parquet, read_table
from mimic_cxr_vqa.schema import PROVENANCE_TYPE, QA_SCHEMA, SPLITS, STUDY_SCHEMA
from mimic_cxr_vqa.statistics import summarise
from mimic_cxr_vqa.workspace import FORMAT, RELEASE_KIND, Workspace

ROWS_PER_SHARD = 250_000
ROWS_PER_BATCH = 65_536
ROWS_PER_GROUP, STUDIES_PER_GROUP = 16_384, 2_048  # what Parquet decodes for one row or study
DEFAULTS = {"flagged": "keep", "allow_missing": False, "rows_per_shard": ROWS_PER_SHARD}


def write_release(
    workspace: Workspace, flagged: str = "keep", allow_missing: bool = False, rows_per_shard: int = ROWS_PER_SHARD
) -> dict[str, Any]:
    """Write `<out>/release`, replacing an earlier one, and return its manifest.

    Args:
        flagged: `keep` or `drop` answers that break a lint rule. Kept ones name the rules in `provenance.lint`.
        allow_missing: release although some questions are not answered.
        rows_per_shard: a shard ends with the first study that reaches this many rows.

    Raises:
        ConfigError: `flagged` or `rows_per_shard` is not allowed.
        InputError: questions are not answered, or were drawn again in the meantime.
        OutputError: the folder cannot be written.
    """
    if flagged not in ("keep", "drop"):
        raise ConfigError(f"flagged={flagged!r}: allowed are keep and drop")
    if rows_per_shard < 1:
        raise ConfigError(f"rows_per_shard={rows_per_shard}: expected at least 1")
    questions = workspace.manifest()
    drawn = describe_questions(workspace)
    governance = workspace.governance()
    with open_answers(workspace, governance) as store:
        settings = store.settings
        answers, counts = _collect_answers(answer_keys(workspace, settings), store, flagged)
    if counts["missing"] and not allow_missing:
        raise InputError(
            f"{counts['missing']} of {questions['counts']['questions']} questions are not answered. "
            f"Run: medvqa-hub cxr answer --out {workspace.root} (or release with --allow-missing)"
        )
    if not counts["rows"]:
        raise InputError(f"{workspace.answers} has no answers to release ({dict(counts)})")
    with atomic_folder(workspace.release, RELEASE_KIND, governance.private) as folder:
        splits, flags = _write_shards(workspace, answers, settings, folder, rows_per_shard)
        if describe_questions(workspace) != drawn:  # answers are matched to questions by order
            raise InputError(f"{workspace.questions} changed during the release. Run answer and release again")
        manifest = {
            "kind": RELEASE_KIND,
            "format": FORMAT,
            "dataset": "mimic_cxr_vqa",
            "source": questions["source"],
            "governance": str(governance),
            "seed": questions["seed"],
            "answers": settings,
            "questions": drawn,
            "counts": {**questions["counts"], **{name: counts[name] for name in sorted(counts)}, **flags},
            "label_counts": questions["label_counts"],
            "section_rules": questions.get("section_rules", {}),
            "splits": splits,
            **_get_language_models(workspace),
            **_get_table3(workspace),
            **_changed_options(flagged=flagged, allow_missing=allow_missing, rows_per_shard=rows_per_shard),
        }
        shards = describe_files(folder, folder.rglob("*.parquet"))
        content = content_digest(shards)
        rows = (batch for path in sorted(folder.glob("qa/*")) for batch in iterate_parquet(path))
        statistics = summarise(track(rows, "Counting rows"), manifest["label_counts"]).to_json()
        write_card(folder, manifest, content, statistics, find_configs(folder))
        manifest["files"] = shards | describe_files(folder, [folder / CARD])
        write_manifest(folder, manifest, sort_keys=True)
    return manifest


def _get_language_models(workspace: Workspace) -> dict[str, Any]:
    """The record of the language models and their servers, without addresses."""
    record = workspace.root / FILE
    if not record.exists():
        return {}
    entries = ModelRecord(record).entries
    return {"language_models": [{k: v for k, v in entry.items() if k != "address"} for entry in entries]}


def _changed_options(**options: Any) -> dict[str, Any]:
    """The options of `write_release` that differ from its defaults, for a rebuild."""
    changed = {name: value for name, value in options.items() if value != DEFAULTS[name]}
    return {"written_with": changed} if changed else {}


def _get_table3(workspace: Workspace) -> dict[str, Any]:
    """Table 3 (`cxr table3`) if it was made from the current answers."""
    if not workspace.table3.exists():
        return {}
    found = read_object(workspace.table3, "delete it, or run medvqa-hub cxr table3 again")
    return {"validation": found} if found.get("answers") == digest_file(workspace.answers) else {}


def describe_questions(workspace: Workspace) -> str:
    """Return the sha256 of the question table, which identifies the questions of a release."""
    return digest_file(workspace.questions / "questions.parquet")


def _collect_answers(keys: pa.Table, store: PredictionStore, flagged: str) -> tuple[pa.Table, Counter]:
    """One row per question, in order: answer (null to leave the row out), attempts, lint rules."""
    counts = Counter(rows=0, missing=0, failed=0, flagged=0, flagged_dropped=0)
    schema = pa.schema([("answer", pa.string()), ("attempts", pa.int8()), ("lint", pa.list_(pa.string()))])
    batches = []
    for start in track(range(0, len(keys), ROWS_PER_BATCH), "Collecting answers"):
        rows = [_get_answer(store, key, flagged, counts) for key in hex_keys(keys, start, ROWS_PER_BATCH)]
        batches.append(pa.RecordBatch.from_pylist(rows, schema))
    return pa.Table.from_batches(batches, schema), counts


def _get_answer(store: PredictionStore, key: str, flagged: str, counts: Counter) -> dict[str, Any]:
    """Answer, attempts and lint rules of one question. Empty without an answer to release."""
    found = store.find(key)
    if found is None:
        counts["missing"] += 1
    elif found.error is not None:
        counts["failed"] += 1
    elif read_lint(found, store) and flagged == "drop":
        counts["flagged_dropped"] += 1
    else:
        rules = read_lint(found, store)
        counts["flagged"] += bool(rules)
        counts["rows"] += 1
        return {"answer": found.answer, "attempts": found.details["attempts"], "lint": rules}
    return {}


def _write_shards(
    workspace: Workspace, answers: pa.Table, settings: Mapping[str, Any], folder: Path, rows_per_shard: int
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Write the shards of every split and return counts per split and of flagged rows."""
    studies = read_table(workspace.questions / "studies.parquet")
    writers: dict[str, _SplitWriter] = {}
    start, flags = 0, {"label_conflicts": 0, "warned": 0}
    batches = iterate_parquet(workspace.questions / "questions.parquet", ROWS_PER_BATCH)
    for questions in track(batches, "Writing shards", total=-(-len(answers) // ROWS_PER_BATCH)):
        rows = _qa_rows(questions, answers.slice(start, len(questions)), settings, flags)
        start += len(questions)
        for split in pc.unique(rows["split"]).to_pylist():
            if split not in writers:
                writers[split] = _SplitWriter(folder, split, studies, rows_per_shard)
            writers[split].write(rows.filter(pc.equal(rows["split"], split)))
    return {split: writers[split].finish() for split in SPLITS if split in writers}, flags


def _qa_rows(
    questions: pa.RecordBatch, answers: pa.Table, settings: Mapping[str, Any], flags: dict[str, int]
) -> pa.Table:
    """QA rows of the questions that have an answer. Flagged rows are counted in `flags`."""
    has_answer = pc.is_valid(answers["answer"])
    questions = pa.Table.from_batches([questions]).filter(has_answer)
    answers = answers.filter(has_answer).combine_chunks()
    answers = answers.set_column(answers.column_names.index("lint"), "lint", _with_flags(questions, answers, flags))
    constant = {f.name: pa.scalar(settings[f.name], f.type) for f in PROVENANCE_TYPE if f.name in settings}
    columns = [
        pa.repeat(constant[f.name], len(answers)) if f.name in constant else answers[f.name].combine_chunks()
        for f in PROVENANCE_TYPE
    ]
    made = {
        "answer": answers["answer"],
        "answer_type": answer_types(answers["answer"].combine_chunks()),
        "provenance": pa.StructArray.from_arrays(columns, fields=list(PROVENANCE_TYPE)),
    }
    return pa.table([made[n] if n in made else questions[n] for n in QA_SCHEMA.names], schema=QA_SCHEMA)


def _with_flags(questions: pa.Table, answers: pa.Table, counts: dict[str, int]) -> pa.ListArray:
    """The rules that each answer breaks, and its flags."""
    columns = (answers["answer"], questions["category"], questions["label_value"], answers["lint"])
    lint = []
    for answer, category, label_value, broken in zip(*(column.to_pylist() for column in columns), strict=True):
        flags = find_flags(answer, category, label_value)
        counts["label_conflicts"] += LABEL_CONFLICT in flags
        counts["warned"] += any(flag != LABEL_CONFLICT for flag in flags)
        lint.append([*broken, *flags])
    return pa.array(lint, PROVENANCE_TYPE.field("lint").type)


class _SplitWriter:
    """Writes the shards of one split, cut between studies, each qa shard with its table of studies."""

    def __init__(self, folder: Path, split: str, studies: pa.Table, rows_per_shard: int) -> None:
        self._folder, self._split, self._studies, self._rows_per_shard = folder, split, studies, rows_per_shard
        self._waiting: list[pa.Table] = []  # rows of the shard being filled
        self._rows = 0
        self._counts = {"rows": 0, "studies": 0, "shards": 0}
        for name in ("qa", "studies"):
            (folder / name).mkdir(exist_ok=True)

    def write(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._rows += len(rows)
        while self._rows > self._rows_per_shard:
            table = pa.concat_tables(self._waiting)
            last = table["study_id"][self._rows_per_shard - 1]
            end = self._rows_per_shard + _count_leading(table["study_id"].slice(self._rows_per_shard), last)
            if end == len(table):  # the study may continue in the next rows
                return
            self._flush(table.slice(0, end))
            self._waiting, self._rows = [table.slice(end)], len(table) - end

    def finish(self) -> dict[str, int]:
        if self._rows:
            self._flush(pa.concat_tables(self._waiting))
        total = self._counts["shards"]
        for name in ("qa", "studies"):
            for number in range(total):
                path = self._path(name, number)
                path.rename(path.with_name(f"{self._split}-{number:05d}-of-{total:05d}.parquet"))
        return self._counts

    def _flush(self, rows: pa.Table) -> None:
        studies = self._studies.take(
            pc.index_in(pc.unique(rows["study_id"]), self._studies["study_id"].combine_chunks())
        )
        number = self._counts["shards"]
        pq.write_table(rows, self._path("qa", number), **WRITING, row_group_size=ROWS_PER_GROUP)
        studies = studies.cast(STUDY_SCHEMA)
        pq.write_table(studies, self._path("studies", number), **WRITING, row_group_size=STUDIES_PER_GROUP)
        for name, value in (("rows", len(rows)), ("studies", len(studies)), ("shards", 1)):
            self._counts[name] += value

    def _path(self, name: str, number: int) -> Path:
        return self._folder / name / f"{self._split}-{number:05d}.parquet"


def _count_leading(ids: pa.ChunkedArray, value: pa.Scalar) -> int:
    """Number of leading entries of `ids` that equal `value`."""
    first_other = pc.index(pc.not_equal(ids, value), True).as_py()
    return len(ids) if first_other < 0 else first_other
