"""The rebuild spec of a release: a folder that may be shared even where the release may not.

    spec/manifest.json              source and reading options, seed, answer settings, counts, sha256 of every table
    spec/questions/<split>.parquet  qa_id, study_id, split, category, question (no answers, labels or reports)
    spec/statistics.json            Tables 1 and 2 of the paper
    spec/README.md                  card

`rebuild` recreates the release from a copy of the source and names each file that differs. The bytes are identical
with the same versions of this package and pyarrow. The answers of a language model also depend on where it ran.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import plain, write_json, write_manifest
from medvqa_core.llm.engines import Engine
from mimic_cxr_vqa.card import CARD, LICENSES, render_card
from mimic_cxr_vqa.generation.answer_request import ANSWER_FROM, AS_TEXT, IMPRESSION, answer_from_settings
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.minimum_class import describe_files
from mimic_cxr_vqa.parquet_files import WRITING, read_table
from mimic_cxr_vqa.rebuild_spec_check import FORMAT, KIND, QUESTIONS, SCHEMA, STATISTICS, VERSIONS, read_rebuild_spec
from mimic_cxr_vqa.release import open_release
from mimic_cxr_vqa.release_writer import describe_questions, write_release
from mimic_cxr_vqa.schema import SPLITS
from mimic_cxr_vqa.sources.registry import SourceOptions, read_source
from mimic_cxr_vqa.statistics import summarise
from mimic_cxr_vqa.workspace import TABLES, Workspace


def write_rebuild_spec(workspace: Workspace, folder: Path) -> dict[str, Any]:
    """Write the rebuild spec of a workspace's release and return its manifest.

    Raises:
        InputError: the release does not match the current questions, or their reading options were not recorded.
        OutputError: the folder holds something else, or cannot be written.
    """
    questions, release = workspace.manifest(), open_release(workspace.release)
    if release.manifest.get("questions") != describe_questions(workspace):
        raise InputError(f"{workspace.release} was made from other questions. Run: medvqa-hub cxr release")
    if "read_with" not in questions:
        raise InputError(
            f"{workspace.questions} does not record how its source was read (written by an earlier version). Run "
            "medvqa-hub cxr questions, answer (stored answers are reused) and release again"
        )
    table = _read_questions(workspace)
    with atomic_folder(folder, KIND) as out:
        (out / "questions").mkdir()
        for split in SPLITS:
            rows = table.filter(pc.equal(table["split"], split))
            if len(rows):
                pq.write_table(rows, out / QUESTIONS[split], **WRITING)
        statistics = summarise(release.iterate_all(), release.manifest.get("label_counts"))
        write_json(out / STATISTICS, statistics.to_json())
        manifest = {
            "kind": KIND,
            "format": FORMAT,
            "governance": str(Governance.OPEN),  # of the spec itself: ids, questions and counts
            "rows_governance": str(release.governance),
            **{name: questions[name] for name in ("source", "read_with", "seed")},
            "answers": release.manifest["answers"],
            "written_with": release.manifest.get("written_with", {}),
            "counts": release.manifest["counts"],
            "splits": release.manifest["splits"],
            "versions": {name: version(name) for name in VERSIONS},
            "tables": {name: digest_file(workspace.questions / name) for name in TABLES},
            "shards": _shard_digests(release.manifest),
        }
        (out / CARD).write_text(_render_card(out, manifest), encoding="utf-8")
        manifest["files"] = describe_files(out, [path for path in out.rglob("*") if path.is_file()])
        write_manifest(out, manifest, sort_keys=True)
    return manifest


def rebuild(
    spec: Path,
    root: Path,
    workspace: Workspace,
    make_engine: Callable[[Governance], Engine],
    reports: Path | None = None,
    sections: Path | None = None,
    studies: Path | None = None,
    log: Callable[[str], None] = print,
) -> list[str]:
    """Recreate a release in `workspace` from a copy of its source. An interrupted rebuild resumes.

    Args:
        root, reports, sections, studies: as `SourceOptions`. The files must be those that the spec names.
        make_engine: makes the engine for texts of a governance class. Its settings must match the spec.

    Returns:
        Names of the tables and shards that differ from the spec. Empty where all bytes are identical.

    Raises:
        ConfigError: a file or the engine does not match the spec.
        InputError: the spec or the source is incomplete.
        OutputError: the workspace cannot be written.
    """
    wanted = read_rebuild_spec(spec)
    options = _make_options(wanted["read_with"], reports, sections, studies)
    log(f"reading {wanted['source']} and drawing its questions")
    source = read_source(wanted["source"], root, options)
    write_questions(source, workspace, wanted["seed"], options.described())
    changed = [
        f"questions/{name}" for name in TABLES if digest_file(workspace.questions / name) != wanted["tables"][name]
    ]
    for line in _describe_differences(spec, workspace) if changed else ():
        log(line)
    settings = dict(wanted["answers"])
    answer_from = ANSWER_FROM[settings.get(IMPRESSION) == AS_TEXT]
    engine = make_engine(workspace.governance())
    _check_settings(answer_from_settings(engine.settings, answer_from), settings)
    answer_questions(workspace, engine, answer_from=answer_from)
    made = _shard_digests(write_release(workspace, **wanted["written_with"]))
    names = sorted(wanted["shards"].keys() | made.keys())
    changed += [f"release/{name}" for name in names if wanted["shards"].get(name) != made.get(name)]
    others = [f"{name} {other}" for name, other in wanted["versions"].items() if version(name) != other]
    if changed and others:
        log(f"the spec was written with {', '.join(others)}. Another version may write the same rows as other bytes")
    return changed


def check_card_matches(spec: Path, manifest: Mapping[str, Any]) -> None:
    """Raise InputError unless the card is generated from the manifest, because any other text could be report text."""
    if CARD not in manifest["files"] or (spec / CARD).read_bytes() != _render_card(spec, manifest).encode():
        raise InputError(
            f"{spec / CARD} differs from the card that this version writes, so it is not pushed. Write the spec again "
            "(medvqa-hub cxr rebuild-spec) and edit the card in the repository"
        )


def _shard_digests(manifest: Mapping[str, Any]) -> dict[str, str]:
    files = manifest["files"].items()
    return {name: described["sha256"] for name, described in files if name.endswith(".parquet")}


def _check_settings(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    given = plain(dict(found))
    names = [*wanted, *(name for name in given if name not in wanted)]
    differing = [f"{n} {given.get(n)!r}, not {wanted.get(n)!r}" for n in names if given.get(n) != wanted.get(n)]
    if differing:
        raise ConfigError(
            f"the engine does not match the rebuild spec: {'; '.join(differing)}. Choose it with --engine and --model"
        )


def _make_options(read_with: Mapping[str, Any], reports: Path | None, *files: Path | None) -> SourceOptions:
    values = {name: read_with.get(name) for name in ("labeler", "labels", "encoding")}
    options = SourceOptions(reports, *values.values(), *files)  # type: ignore[arg-type]
    for name, path in zip(("sections", "studies"), files, strict=True):
        wanted, found = read_with.get(name), options.described()[name]
        if wanted != found:
            expected = "the spec does not use one" if wanted is None else f"the spec's has the sha256 {wanted[:12]}…"
            raise ConfigError(f"--{name} {path}: {expected}. Rebuild with the same file")
    return options


def _read_questions(workspace: Workspace) -> pa.Table:
    return read_table(workspace.questions / "questions.parquet").select(SCHEMA.names).cast(SCHEMA)


def _describe_differences(spec: Path, workspace: Workspace) -> list[str]:
    """How the drawn questions differ from those of the spec, as counts with an example."""
    wanted = pa.concat_tables(read_table(spec / name) for name in QUESTIONS.values() if (spec / name).exists())
    found = _read_questions(workspace)
    lines = []
    for where, rows, others in (("missing here", wanted, found), ("not in the rebuild spec", found, wanted)):
        only = rows.filter(pc.invert(pc.is_in(rows["qa_id"], others["qa_id"].combine_chunks())))
        if len(only):
            studies = pc.unique(only["study_id"])
            lines.append(f"{len(only):,} questions of {len(studies):,} studies are {where}, such as {only['qa_id'][0]}")
    return lines or ["the questions are the same; texts, labels or views of their studies differ"]


def _render_card(folder: Path, manifest: Mapping[str, Any]) -> str:
    files = sorted((folder / "questions").glob("*.parquet"))
    data_files = [{"split": path.stem, "path": f"questions/{path.name}"} for path in files]
    metadata = {
        **LICENSES[Governance.OPEN],
        "pretty_name": f"MIMIC-CXR-VQA rebuild spec ({manifest['source']})",
        "tags": ["medical", "radiology", "chest-x-ray", "rebuild-spec"],
        "configs": [{"config_name": "questions", "data_files": data_files}],
    }
    return render_card("mimic_cxr_vqa_rebuild_spec", metadata, **manifest)
