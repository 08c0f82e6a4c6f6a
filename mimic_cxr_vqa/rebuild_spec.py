"""A recipe: what may be shared of a release that itself may not, so that others rebuild it from their own copy.

    recipe/manifest.json                 source and how it was read, seed, the answers' settings, counts, and the sha256
                                         of every table and shard
    recipe/questions/<split>.parquet     qa_id, study_id, split, category, question: no answer, no label, no report
    recipe/statistics.json               the paper's Tables 1 and 2
    recipe/README.md                     card

`rebuild` makes the questions, answers and shards again and names each that differs. Bytes are the same with the same
versions of this package and of pyarrow; answers of a language model also depend on where it ran.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hub_cards
from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import plain, write_json, write_manifest
from medvqa_core.llm.engines import Engine
from mimic_cxr_vqa.card import CARD, LICENSES
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.engines import ANSWER_FROM, AS_TEXT, IMPRESSION, answer_from_settings
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


def write_recipe(workspace: Workspace, folder: Path) -> dict[str, Any]:
    """Write the recipe of a workspace's release; returns its manifest.

    Raises:
        InputError: there is no release of the present questions, or the questions do not say how they were read.
        OutputError: the folder holds something else, or cannot be written.
    """
    questions, release = workspace.manifest(), open_release(workspace.release)
    if release.manifest.get("questions") != describe_questions(workspace):
        raise InputError(f"{workspace.release}: of other questions than the present ones; run medvqa-hub cxr release")
    if "read_with" not in questions:
        raise InputError(
            f"{workspace.questions}: does not say how its source was read (an earlier version drew it); run "
            "medvqa-hub cxr questions, answer (nothing is asked twice) and release again"
        )
    table = _questions_of(workspace)
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
            "governance": str(Governance.OPEN),  # of the recipe: ids, questions and counts
            "rows_governance": str(release.governance),
            "source": questions["source"],
            "read_with": questions["read_with"],
            "seed": questions["seed"],
            "answers": release.manifest["answers"],
            "written_with": release.manifest.get("written_with", {}),
            "counts": release.manifest["counts"],
            "splits": release.manifest["splits"],
            "versions": {name: version(name) for name in VERSIONS},
            "tables": {name: digest_file(workspace.questions / name) for name in TABLES},
            "shards": {
                name: described["sha256"]
                for name, described in release.manifest["files"].items()
                if name.endswith(".parquet")
            },
        }
        _write_card(out, manifest)
        manifest["files"] = describe_files(out, [path for path in out.rglob("*") if path.is_file()])
        write_manifest(out, manifest, sort_keys=True)
    return manifest


def rebuild(
    recipe: Path,
    root: Path,
    workspace: Workspace,
    make_engine: Callable[[Governance], Engine],
    reports: Path | None = None,
    sections: Path | None = None,
    studies: Path | None = None,
    log: Callable[[str], None] = print,
) -> list[str]:
    """Make a recipe's release again in `workspace`, from one's own copy of the source; goes on where it was stopped.

    Args:
        root, reports, sections, studies: as `SourceOptions`; the files have to be those that the recipe names.
        make_engine: makes the engine for texts of a class; its settings have to be the recipe's.

    Returns:
        What differs from the recipe: tables and shards by name; empty where all bytes are the same.

    Raises:
        ConfigError: a file or the engine is not the recipe's.
        InputError: the recipe or the source is not whole.
        OutputError: the workspace cannot be written.
    """
    wanted = read_rebuild_spec(recipe)
    options = _options(wanted["read_with"], reports, sections, studies)
    log(f"reading {wanted['source']} and drawing its questions")
    source = read_source(wanted["source"], root, options)
    write_questions(source, workspace, wanted["seed"], options.described())
    changed = [
        f"questions/{name}" for name in TABLES if digest_file(workspace.questions / name) != wanted["tables"][name]
    ]
    for line in _question_differences(recipe, workspace) if changed else ():
        log(line)
    settings = dict(wanted["answers"])
    answer_from = ANSWER_FROM[settings.get(IMPRESSION) == AS_TEXT]
    engine = make_engine(workspace.governance())
    _refuse_other_settings(answer_from_settings(engine.settings, answer_from), settings)
    answer_questions(workspace, engine, answer_from=answer_from)
    release = write_release(workspace, **wanted["written_with"])
    made = {name: described["sha256"] for name, described in release["files"].items() if name.endswith(".parquet")}
    names = sorted(wanted["shards"].keys() | made.keys())
    changed += [f"release/{name}" for name in names if wanted["shards"].get(name) != made.get(name)]
    if changed and (others := _other_versions(wanted["versions"])):
        log(f"the recipe was made with {others}: other versions may write other bytes of the same rows")
    return changed


def _refuse_other_settings(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise ConfigError where a run's settings are not those that a recipe names."""
    given = plain(dict(found))
    names = [*wanted, *(name for name in given if name not in wanted)]
    differing = [f"{n} {given.get(n)!r}, not {wanted.get(n)!r}" for n in names if given.get(n) != wanted.get(n)]
    if differing:
        raise ConfigError(
            f"the engine is not the recipe's: {'; '.join(differing)}; choose it with --engine and --model"
        )


def _options(read_with: Mapping[str, Any], reports: Path | None, *files: Path | None) -> SourceOptions:
    values = {name: read_with.get(name) for name in ("labeler", "labels", "encoding")}
    options = SourceOptions(reports, *values.values(), *files)  # type: ignore[arg-type]
    for name, path in zip(("sections", "studies"), files, strict=True):
        wanted, found = read_with.get(name), options.described()[name]
        if wanted != found:
            what = "the recipe used none" if wanted is None else f"the recipe's has the sha256 {wanted[:12]}…"
            raise ConfigError(f"--{name} {path}: {what}; rebuild with the same file")
    return options


def _questions_of(workspace: Workspace) -> pa.Table:
    """The columns that a recipe has, without what else the file may carry."""
    return read_table(workspace.questions / "questions.parquet").select(SCHEMA.names).cast(SCHEMA)


def _question_differences(recipe: Path, workspace: Workspace) -> list[str]:
    """How the drawn questions differ from the recipe's, in counts and first ids."""
    wanted = pa.concat_tables(read_table(recipe / name) for name in QUESTIONS.values() if (recipe / name).exists())
    found = _questions_of(workspace)
    lines = []
    for what, rows, others in (("missing here", wanted, found), ("not in the recipe", found, wanted)):
        only = rows.filter(pc.invert(pc.is_in(rows["qa_id"], others["qa_id"].combine_chunks())))
        if len(only):
            studies = pc.unique(only["study_id"])
            lines.append(f"{len(only):,} questions of {len(studies):,} studies are {what}, such as {only['qa_id'][0]}")
    return lines or ["the questions are the same; texts, labels or views of their studies are not"]


def _other_versions(wanted: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {other}" for name, other in wanted.items() if version(name) != other)


def check_card_matches(recipe: Path, manifest: Mapping[str, Any]) -> None:
    """Raise InputError unless the card is the one that belongs to a manifest: any text could stand in another."""
    if CARD not in manifest["files"] or (recipe / CARD).read_bytes() != _card_of(recipe, manifest).encode():
        raise InputError(
            f"{recipe / CARD} is not the card that this version writes for this recipe: it is not pushed with words of "
            "its own; write the recipe again, and add them to the repository by hand"
        )


def _write_card(folder: Path, manifest: Mapping[str, Any]) -> None:
    (folder / CARD).write_text(_card_of(folder, manifest), encoding="utf-8")


def _card_of(folder: Path, manifest: Mapping[str, Any]) -> str:
    from huggingface_hub import DatasetCard, DatasetCardData

    data = DatasetCardData(
        **LICENSES[Governance.OPEN],
        pretty_name=f"MIMIC-CXR-VQA recipe ({manifest['source']})",
        language="en",
        task_categories=["visual-question-answering"],
        tags=["medical", "radiology", "chest-x-ray", "recipe"],
        configs=[
            {
                "config_name": "questions",
                "data_files": [
                    {"split": path.stem, "path": f"questions/{path.name}"}
                    for path in sorted((folder / "questions").glob("*.parquet"))
                ],
            }
        ],
    )
    template = str(hub_cards.template_path("mimic_cxr_vqa_recipe"))
    card = DatasetCard.from_template(data, template_path=template, **manifest)
    return str(card).rstrip() + "\n"
