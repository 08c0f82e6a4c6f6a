"""Opens a release in any of its forms: Parquet, the authors' CSV, or questions without answers.

`open_release(folder)` accepts a release or the workspace that it was built in.
"""

import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.digests import digest
from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST, atomic_folder, join_under
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_json, read_manifest, read_object, write_json, write_manifest
from medvqa_core.progress import track
from mimic_cxr_vqa.authors_csv import read_authors_csv, write_authors_csv
from mimic_cxr_vqa.minimum_class import check_unchanged, describe_files, get_csv_governance, get_tables_governance
from mimic_cxr_vqa.parquet_files import count_rows, iterate_parquet
from mimic_cxr_vqa.row_checks import RowChecks
from mimic_cxr_vqa.schema import SPLITS
from mimic_cxr_vqa.sources.study_set import check_splits, check_unique
from mimic_cxr_vqa.workspace import FORMAT, QUESTIONS_KIND, RELEASE_KIND, Workspace

_log = logging.getLogger(__name__)
RELEASE_VARIABLE = "MIMIC_CXR_VQA_DIR"
IMAGE_VARIABLE = "MIMIC_CXR_JPG_ROOT"
STORE_VARIABLE = "MIMIC_CXR_JPG_STORE"
CSV_KIND = "authors-csv"
_SPLIT_PREFIXES = {"train": "train", "validate": "val", "test": "test"}  # in the authors' file names
# the names of a release, of the authors' scripts, and of the challenge CXR-ORACLE
_CSV_NAME = re.compile(
    r"(?:generated_questions_answers_)?(train|val|test).*\.csv(?:\.gz)?|(?i:cxr_oracle_\d+_)((?i:train|val|test)).*\.csv(?:\.gz)?"
)
_CHALLENGE_FOLDERS = "CXR_ORACLE_*"


@dataclass(frozen=True)
class Release:
    """A dataset folder.

    Attributes:
        kind: `parquet`, `csv`, or `questions` (questions without answers).
        files: split -> the files of its rows, in order.
        studies: split -> the study tables aligned with `files`. Empty for CSV.
        fingerprint: changes with the content.
    """

    folder: Path
    kind: str
    governance: Governance
    files: dict[str, list[Path]]
    studies: dict[str, list[Path]]
    fingerprint: str
    manifest: dict[str, Any]

    def iterate(self, split: str, file: Path) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file of `split`: QA_SCHEMA, or QUESTION_SCHEMA for `questions`."""
        if self.kind == "csv":
            return read_authors_csv(file, split, self.manifest.get("answers"))
        if self.kind == "questions":  # one file for all splits
            return (batch.filter(pc.equal(batch["split"], split)) for batch in iterate_parquet(file))
        return iterate_parquet(file)

    @property
    def duplicates(self) -> str:
        """The policy for repeated questions. The authors' files have some, where an LLM repeated itself."""
        return "first" if self.kind == "csv" else "error"

    def iterate_all(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all splits. Of questions that the authors' files repeat only the first row is kept.

        Raises:
            InputError: answers are missing, a question is repeated, or a patient is in two splits.
        """
        patients: dict = {}
        for split in self.files:
            yield from self.iterate_split(split, patients)

    def iterate_split(self, split: str, patients: dict) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split, as `iterate_all`. The splits of one pass share `patients` (see RowChecks).

        Questions without an answer, which the challenge's files have, are left out.
        """
        if self.kind == "questions":
            raise InputError(f"{self.folder} has questions but no answers. Run: medvqa-hub cxr answer, release")
        checks, unanswered = RowChecks(patients, self.duplicates), 0
        for file in self.files[split]:
            for batch in self.iterate(split, file):
                rows = checks.add(batch)
                unanswered += rows["answer"].null_count
                yield rows.filter(pc.is_valid(rows["answer"])) if rows["answer"].null_count else rows
        where = ", ".join(map(str, self.files[split]))
        checks.finish_split(split, where)
        if checks.left_out:
            _log.warning("%s: %d rows with repeated questions left out", where, checks.left_out)
        if unanswered:
            _log.warning("%s: %d questions without an answer left out", where, unanswered)


def open_release(folder: Path) -> Release:
    """Open the dataset in `folder`.

    Raises:
        InputError: the folder is missing, does not hold a dataset, or its files differ from the manifest.

    Examples:
        >>> from mimic_cxr_vqa import SAMPLE_DIR
        >>> open_release(SAMPLE_DIR).governance.value
        'open'
    """
    folder = Path(folder).expanduser().absolute()
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder. Name a release, or build a dataset with medvqa-hub cxr")
    workspace = Workspace(folder)
    if folder.name == workspace.questions.name and (folder / MANIFEST).exists() and _kind(folder) == QUESTIONS_KIND:
        return _open_questions(Workspace(folder.parent))  # named itself, so not the release beside it
    for place in (folder, workspace.release):
        if (place / MANIFEST).exists() and _kind(place) == RELEASE_KIND:
            return _open_parquet(place)
    for place in (folder, *sorted(folder.glob(_CHALLENGE_FOLDERS))):
        if place.is_dir() and (found := find_csv_files(place)):
            return _open_csv(place, found)
    if (workspace.questions / MANIFEST).exists():
        return _open_questions(workspace)
    raise InputError(
        f"{folder} does not hold a release (looked for {MANIFEST}, release/{MANIFEST}, questions/{MANIFEST} and "
        "train*.csv, val*.csv, test*.csv, CXR_ORACLE_*.csv). Build one with medvqa-hub cxr"
    )


def export_authors_csv(release: Release, out: Path) -> dict[str, int]:
    """Write `release` as train.csv, val.csv and test.csv with a manifest, and return the number of rows per split.

    Raises:
        InputError: as `iterate_all`, or a row cannot be expressed in the layout.
        OutputError: `out` cannot be written, or holds something else.
    """
    rows: dict[str, int] = {}
    patients: dict = {}
    private = release.governance.private
    if out.absolute().is_relative_to(release.folder):
        raise InputError(f"{out} is inside the release {release.folder}. Choose a folder outside of it")
    with atomic_folder(out, CSV_KIND, private) as folder:
        for split in release.files:
            batches = track(release.iterate_split(split, patients), f"Writing the {split} split")
            rows[split] = write_authors_csv(folder / f"{_SPLIT_PREFIXES[split]}.csv", batches, private)
        manifest: dict[str, Any] = {k: v for k, v in release.manifest.items() if k in ("source", "answers")}
        manifest |= {"kind": CSV_KIND, "format": FORMAT, "governance": str(release.governance), "rows": rows}
        manifest["files"] = describe_files(folder, folder.glob("*.csv"))
        write_manifest(folder, manifest, sort_keys=True)
    return rows


def find_default_release() -> Path:
    """Return the folder in the variable MIMIC_CXR_VQA_DIR, else the release that was built last on this machine.

    Raises:
        InputError: there is neither.
    """
    named = os.environ.get(RELEASE_VARIABLE)
    if named:
        return Path(named)
    record = _last_release_record()
    last, remedy = None, "delete it, or pass data_dir=…"
    if record.exists():
        try:
            last = Path(read_object(record, remedy)["release"])
        except (KeyError, TypeError) as error:
            raise InputError(f"{record} does not name a release ({error!r}); {remedy}") from None
    if last is None or not last.is_dir():
        raise InputError(
            "no MIMIC-CXR-VQA release found on this machine. Load the bundled one with load_dataset('mimic_cxr_vqa', "
            f"'sample'), build one with medvqa-hub cxr questions, answer and release, pass data_dir=… or set "
            f"{RELEASE_VARIABLE}"
        )
    return last


def record_last_release(folder: Path) -> None:
    """Record `folder` as the release that `load_dataset("mimic_cxr_vqa")` loads by default."""
    write_json(_last_release_record(), {"release": str(folder.resolve())}, indent=None, ensure_ascii=True, end="")


def find_image_prefix(image_root: Path) -> Path:
    """Return the folder that image paths start from: `<image_root>/files` if it exists (MIMIC-CXR-JPG)."""
    return image_root / "files" if (image_root / "files").is_dir() else image_root


def _last_release_record() -> Path:
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "medvqa_hub" / "mimic_cxr_vqa.json"


def _kind(folder: Path) -> str | None:
    manifest = read_json(folder / MANIFEST, "build the release again")
    return manifest.get("kind") if isinstance(manifest, dict) else None


def _open_parquet(folder: Path) -> Release:
    remedy = "build the release again: medvqa-hub cxr release"
    manifest = read_manifest(folder, remedy, RELEASE_KIND, FORMAT, ("files", "splits", "counts"))
    for name, described in manifest["files"].items():
        path = join_under(folder, name, str(folder / MANIFEST))
        size = path.stat().st_size if path.exists() else None
        if size != described["bytes"]:
            state = "is missing" if size is None else f"has {size} bytes, not {described['bytes']}"
            raise InputError(f"{path} {state}. Copy the release again or build it again")
    check_unchanged({folder / name: described["sha256"] for name, described in manifest["files"].items()})

    def files(table: str) -> dict[str, list[Path]]:
        return {s: [folder / n for n in sorted(manifest["files"]) if n.startswith(f"{table}/{s}-")] for s in SPLITS}

    _check_studies(folder, [path for paths in files("studies").values() for path in paths])
    for split, described in manifest["splits"].items():
        rows = sum(count_rows(path) for path in files("qa")[split])
        if rows != described["rows"]:
            raise InputError(
                f"{folder}: the {split} split has {rows} rows, the manifest {described['rows']}. Build it again"
            )
    tables = [path for table in ("studies", "qa") for paths in files(table).values() for path in paths]
    governance = get_tables_governance(manifest, tables, folder)
    key = (folder / MANIFEST).read_bytes()
    return _make_release(folder, "parquet", governance, manifest, files("qa"), key, files("studies"))


def _check_studies(folder: Path, tables: list[Path]) -> None:
    """Check studies and splits once for all splits, because several processes may load them later."""
    columns = ["subject_id", "study_id", "split"]
    batches = [batch for path in tables for batch in iterate_parquet(path, columns=columns)]
    if batches:
        studies = pa.Table.from_batches(batches)
        check_unique(studies["study_id"], f"{folder}: study")
        check_splits(studies, str(folder))


def _open_csv(folder: Path, found: dict[str, list[Path]]) -> Release:
    """Open the authors' files, which are credentialed unless a manifest gives another class."""
    manifest: dict[str, Any] = {"governance": str(Governance.CREDENTIALED)}
    governance = Governance.CREDENTIALED
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder, "delete it if the files are the authors' release", CSV_KIND, FORMAT)
        governance = get_csv_governance(manifest, found, folder)
    states = [
        f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for paths in found.values() for path in paths
    ]
    key = "\n".join([*states, json.dumps(manifest)]).encode()
    return _make_release(folder, "csv", governance, manifest, found, key)


def _open_questions(workspace: Workspace) -> Release:
    manifest = workspace.manifest()
    path = workspace.questions / "questions.parquet"
    files = {split: [path] for split in manifest["questions_per_split"]}
    state = path.stat()
    key = json.dumps([manifest, state.st_size, state.st_mtime_ns]).encode()
    return _make_release(workspace.questions, "questions", workspace.governance(), manifest, files, key)


def _make_release(
    folder: Path,
    kind: str,
    governance: Governance,
    manifest: dict[str, Any],
    files: dict[str, list[Path]],
    key: bytes,
    studies: dict[str, list[Path]] | None = None,
) -> Release:
    files, studies = ({s: paths for s, paths in found.items() if paths} for found in (files, studies or {}))
    return Release(folder, kind, governance, files, studies, digest(key)[:16], manifest)


def find_csv_files(folder: Path) -> dict[str, list[Path]]:
    """Return split -> its CSV files, sorted by name: `train*.csv`, `val*.csv`, `test*.csv`, plain or gzipped.

    The names of the authors' scripts, such as `generated_questions_answers_train_all.csv`, are found too, and those of
    the challenge, such as `CXR_ORACLE_2025_Train.csv`.
    """
    found: dict[str, list[Path]] = {}
    splits = {prefix: split for split, prefix in _SPLIT_PREFIXES.items()}
    named = sorted((path, match) for path in folder.iterdir() if (match := _CSV_NAME.fullmatch(path.name)))
    for path, match in named:
        found.setdefault(splits[(match[1] or match[2]).lower()], []).append(path)
    return {split: found[split] for split in _SPLIT_PREFIXES if split in found}
