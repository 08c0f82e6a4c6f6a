"""`medvqa-hub publish physionet`: write a folder for submission, with texts for a person to complete.

The tables leave out `indication`, which is a section of the report. The share of report text in the answers is measured
and stated. The output is deterministic.
"""

import gzip
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import hub_cards
from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.files import atomic_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json, write_manifest
from medvqa_core.progress import track
from medvqa_hub.publishing import submission
from medvqa_hub.publishing.memorisation import report_phrases
from medvqa_hub.publishing.phrases import Phrases, longest_runs
from mimic_cxr_vqa.parquet_files import WRITING
from mimic_cxr_vqa.release import Release, open_release
from mimic_cxr_vqa.statistics import summarise
from mimic_cxr_vqa.workspace import Workspace

SOURCES = {"physionet": "MIMIC-CXR and MIMIC-CXR-JPG", "phantom": "synthetic studies (no patients)"}
LICENSE_TEXT = {
    Governance.CREDENTIALED: (
        "PhysioNet Credentialed Health Data License 1.5.0",
        "https://physionet.org/content/mimic-cxr/view-license/2.1.0/",
    ),
    Governance.OPEN: ("Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
}
KEPT_NAME = "texts.generated.md"
_LISTS = ("images", "views", "lint")


def publish_physionet(
    workspace: Path, out: Path, title: str, version: str = "1.0.0", log: Callable[[str], None] = print
) -> list[submission.Problem]:
    """Write the folder of a submission. Returns its problems.

    Texts that a person has changed are kept, with the new ones in another file. The previous folder stays until the
    new one is complete.

    Args:
        workspace: workspace of the release, with the reports that the rows are compared with.

    Raises:
        ConfigError: PhysioNet would not accept the title or version.
        GovernanceError: the rows are from Open-i, whose derivatives may not be shared, or a column other than the
            answers holds report text.
        InputError: the workspace has no release in Parquet.
        OutputError: `out` holds something else, or cannot be written.
    """
    front = {"title": title, "short_description": "", "version": version, "license": "-"}
    wrong = [one for one in submission.check_front(front) if one.where in ("title", "version")]
    if wrong:
        raise ConfigError(f"{wrong[0].where}: {wrong[0].what}")
    release = open_release(workspace)
    if release.governance not in LICENSE_TEXT:
        raise GovernanceError(
            f"{workspace} has class {release.governance}, whose derivatives may not be shared. Share its rebuild spec "
            "instead (medvqa-hub cxr rebuild-spec)."
        )
    if release.kind != "parquet":
        raise InputError(f"{workspace} holds no release of Parquet shards. Write one with medvqa-hub cxr release")
    private = release.governance.private
    changed = submission.written_texts(out)
    with atomic_folder(out, submission.KIND, private) as folder:
        files = folder / submission.FILES
        files.mkdir()
        quoted = _write_tables(release, files, report_phrases(Workspace(workspace).root))
        statistics = summarise(release.iterate_all(), release.manifest.get("label_counts")).to_json()
        write_json(files / submission.STATISTICS, statistics)
        name, link = LICENSE_TEXT[release.governance]
        (files / submission.LICENSE).write_text(f"{name}\n{link}\n", encoding="utf-8")
        sums = [f"{digest_file(path)} {path.name}\n" for path in sorted(files.iterdir())]
        (files / submission.SUMS).write_text("".join(sums), encoding="utf-8")
        texts = folder / submission.TEXTS
        texts.write_text(_texts(release, title, version, name, statistics, quoted), encoding="utf-8")
        written = digest_file(texts)
        if changed is not None:
            texts.rename(folder / KEPT_NAME)
            texts.write_text(changed, encoding="utf-8")
            log(f"{submission.TEXTS} was changed by hand and is kept. The new texts are in {KEPT_NAME}.")
        manifest = {"kind": submission.KIND, "format": submission.FORMAT, "governance": str(release.governance)}
        write_manifest(folder, {**manifest, "texts": written})
        found = submission.find_problems(folder)
        (folder / submission.TODO).write_text(_todo(found, release.governance), encoding="utf-8")
    return found


def _write_tables(release: Release, files: Path, reports: Phrases) -> dict[str, Any]:
    """Write each split as CSV and Parquet. Returns how much of the answers occurs in reports."""
    phrases, longest = np.array([], np.uint64), 0
    for split in release.files:
        with (
            open(files / f"{split}.csv.gz", "wb") as raw,
            gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed,
            pq.ParquetWriter(files / f"{split}.parquet", _SCHEMA, **WRITING) as parquet,
            pa_csv.CSVWriter(packed, _flat(_SCHEMA.empty_table()).schema) as csv_file,
        ):
            for table in track(_rows(release, split), f"Writing {split}"):
                parquet.write_table(table)
                csv_file.write_table(flat := _flat(table))
                longest = max(longest, _longest_quote(flat, reports))
                answers = Phrases(pc.unique(table["answer"]).to_pylist())
                phrases = np.union1d(phrases, answers.distinct())
    share = float(np.isin(phrases, reports.distinct()).mean()) if len(phrases) else 0.0
    return {"share": share, "longest": longest}


def _rows(release: Release, split: str) -> Iterator[pa.Table]:
    """The rows of a submission, with provenance as columns and without report sections."""
    for batch in release.iterate_split(split, {}):
        provenance = batch["provenance"]
        columns = []
        for field in _SCHEMA:
            found = batch.column(field.name) if field.name in batch.schema.names else None
            found = pc.struct_field(provenance, field.name) if found is None else found
            columns.append(found.cast(field.type))
        yield pa.table(columns, schema=_SCHEMA)


def _schema() -> pa.Schema:
    from mimic_cxr_vqa.schema import PROVENANCE_TYPE, QA_SCHEMA

    fields = {field.name: field for field in (*PROVENANCE_TYPE, *QA_SCHEMA)}
    return pa.schema([fields[name] for name in submission.COLUMNS])


_SCHEMA = _schema()


def _flat(table: pa.Table) -> pa.Table:
    """Join lists with semicolons for CSV."""
    for name in _LISTS:
        texts = pc.binary_join(table[name].combine_chunks(), ";") if len(table) else pa.array([], pa.string())
        table = table.set_column(table.column_names.index(name), name, texts)
    return table


def _longest_quote(table: pa.Table, reports: Phrases) -> int:
    """Words in the longest run of an answer that occurs in a report, or 0 below eight.

    Raises:
        GovernanceError: another column holds eight consecutive words of a report.
    """
    names = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    texts = [(name, text) for name in names for text in pc.unique(table[name]).to_pylist() if text]
    runs = longest_runs(Phrases(text for _, text in texts), reports, len(texts)).tolist()
    for (name, _), run in zip(texts, runs, strict=True):
        if run and name != "answer":
            raise GovernanceError(f"column {name} holds {run} consecutive words of a report. Build the release again.")
    return max(runs, default=0)


def _texts(
    release: Release,
    title: str,
    version: str,
    license_name: str,
    statistics: Mapping[str, Any],
    quoted: Mapping[str, Any],
) -> str:
    manifest = release.manifest
    metadata = {
        "title": title,
        "short_description": f"{statistics['table_1']['all']['qa_pairs']:,} questions and answers about chest "
        "radiograph studies in 15 categories, derived from radiology reports by a language model or rules.",
        "version": version,
        "license": license_name,
    }
    return hub_cards.render(
        "physionet",
        metadata,
        **{name: manifest[name] for name in ("seed", "counts", "answers")},
        source=SOURCES[manifest["source"]],
        all=statistics["table_1"]["all"],
        table_1=statistics["table_1"],
        table_2=statistics["table_2"],
        quoted=quoted,
        columns=submission.COLUMNS,
        validation=_validation(manifest),
    )


def _validation(manifest: Mapping[str, Any]) -> str:
    from mimic_cxr_vqa.judging.table3_text import format_table3

    found = manifest.get("validation")
    return f"Answers judged by people and a model:\n\n```\n{format_table3(found)}\n```" if found else ""


def _todo(found: list[submission.Problem], governance: Governance) -> str:
    lines = ["# To do", "", "In `texts.md`, at the places marked TO WRITE:", ""]
    lines += [f"- [ ] {one.where}: {one.what}" for one in found]
    lines += ["", "On PhysioNet:", ""]
    steps = [
        "read and check every text of `texts.md`, which only states what the program counted",
        "name the authors with their affiliations, and the submitting author",
        "give references (the source, its PhysioNet page, the models) and acknowledgements",
        "name MIMIC-CXR and MIMIC-CXR-JPG as the parent projects",
        "check a sample of the answers for names, dates and ages that de-identification of the source missed",
        "state which models read the reports, and where they ran (PhysioNet's notice of 24 September 2025)",
        "upload only the content of `files/` (PhysioNet writes LICENSE.txt and SHA256SUMS.txt itself, to compare)",
        "run `medvqa-hub doctor --publish` on this folder again",
    ]
    if governance is Governance.OPEN:
        steps.insert(0, "these rows are synthetic: use them as a rehearsal, and do not submit them under MIMIC's name")
    return "\n".join([*lines, *(f"- [ ] {step}" for step in steps)]) + "\n"
