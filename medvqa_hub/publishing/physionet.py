"""`medvqa-hub publish physionet`: a folder that is ready to be submitted, but for what a person must write.

The rows go without `indication`: it is a section of the report. So do `findings` and `impression`, which no row has.
Answers hold words of reports; how many is measured and said. The same release gives the same bytes.
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

SOURCES = {"physionet": "MIMIC-CXR and MIMIC-CXR-JPG", "phantom": "drawn studies (no patient)"}
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
) -> list[submission.Obstacle]:
    """Write the folder of a submission; returns what stands in its way.

    Texts that a person has changed are kept, and the new ones stand beside them. Stopped, the same command starts
    again; until it is done, the earlier folder is there.

    Args:
        workspace: folder that the release was built in: its reports are what the rows are compared with.

    Raises:
        ConfigError: title or version are none that PhysioNet takes.
        GovernanceError: rows of Open-i, which are adapted and not shared; or report text outside of the answers.
        InputError: there is no release of Parquet shards.
        OutputError: `out` holds something else, or cannot be written.
    """
    front = {"title": title, "short_description": "", "version": version, "license": "-"}
    wrong = [one for one in submission.check_front(front) if one.where in ("title", "version")]
    if wrong:
        raise ConfigError(f"{wrong[0].where}: {wrong[0].what}")
    release = open_release(workspace)
    if release.governance not in LICENSE_TEXT:
        raise GovernanceError(
            f"{workspace} is of class {release.governance}: adaptations of its source may be made, not shared; share "
            "its rebuild spec (medvqa-hub cxr rebuild-spec)"
        )
    if release.kind != "parquet":
        raise InputError(f"{workspace} holds no release of Parquet shards; write one with medvqa-hub cxr release")
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
            log(f"{submission.TEXTS} was changed by hand and is kept; with today's figures: {KEPT_NAME}")
        manifest = {"kind": submission.KIND, "format": submission.FORMAT, "governance": str(release.governance)}
        write_manifest(folder, {**manifest, "texts": written})
        found = submission.obstacles(folder)
        (folder / submission.TODO).write_text(_todo(found, release.governance), encoding="utf-8")
    return found


def _write_tables(release: Release, files: Path, reports: Phrases) -> dict[str, Any]:
    """Both forms of every split; returns how much of the answers stands in reports."""
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
    """The rows of a submission: provenance as columns, no report section."""
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
    """Lists as texts with semicolons: CSV has none."""
    for name in _LISTS:
        texts = pc.binary_join(table[name].combine_chunks(), ";") if len(table) else pa.array([], pa.string())
        table = table.set_column(table.column_names.index(name), name, texts)
    return table


def _longest_quote(table: pa.Table, reports: Phrases) -> int:
    """Words in the longest run of an answer that stands in a report; 0 below eight.

    Raises:
        GovernanceError: another column holds eight words of a report in a row.
    """
    names = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    said = [(name, text) for name in names for text in pc.unique(table[name]).to_pylist() if text]
    runs = longest_runs(Phrases(text for _, text in said), reports, len(said)).tolist()
    for (name, _), run in zip(said, runs, strict=True):
        if run and name != "answer":
            raise GovernanceError(
                f"column {name} holds {run} words of a report in a row; nothing was written; release the rows again"
            )
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


def _todo(found: list[submission.Obstacle], governance: Governance) -> str:
    lines = ["# What a person must still do", "", "In `texts.md`, where it says TO WRITE:", ""]
    lines += [f"- [ ] {one.where}: {one.what}" for one in found]
    lines += ["", "On PhysioNet:", ""]
    steps = [
        "read every text of `texts.md` and own it: the program wrote what it counted, nothing else",
        "name the authors with their affiliations, and who submits",
        "give references (the source, its PhysioNet page, the models) and acknowledgements",
        "name MIMIC-CXR and MIMIC-CXR-JPG as the parent projects",
        "look at a sample of the answers for names, dates and ages that the source's de-identification left",
        "say which models read the reports, and where they ran (its notice of 24 September 2025)",
        "upload what is in `files/`, nothing else; it makes LICENSE.txt and SHA256SUMS.txt itself, ours are to compare",
        "run `medvqa-hub doctor --publish` on this folder once more",
    ]
    if governance is Governance.OPEN:
        steps.insert(0, "these rows are drawn: a rehearsal, not to be submitted under MIMIC's name")
    return "\n".join([*lines, *(f"- [ ] {step}" for step in steps)]) + "\n"
