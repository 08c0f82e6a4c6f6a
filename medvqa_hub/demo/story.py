"""`medvqa-hub demo`: the whole story on synthetic studies, with what it made kept in one folder to look at.

Chapters 1 to 5 make a dataset of a few large images. Chapters 6 to 8 train and evaluate on many small ones, so that a
tiny model learns something in minutes on a CPU. Chapter 9 reads Chinese report images.
"""

from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from mimic_cxr_vqa.schema import canonical_view

IMAGE_SIZE = 384
STUDIES_SHOWN = 4


def run_demo(out: Path, studies: int, seed: int, training_studies: int, reports: bool) -> None:
    """Draw `studies` studies, ask and answer their questions, release, load, count and picture them, all below `out`.

    Then train on `training_studies` small ones (0: not at all) and, with `reports`, read the bundled report images. A
    second run goes on where the first one stopped.

    Raises:
        ConfigError: `out` holds a demo of another size or seed.
    """
    from medvqa_hub.demo.learning import tell_how_it_learns
    from medvqa_hub.demo.meddqa import PICTURE, run_meddqa_demo

    console = Console()
    places = _make_dataset(console, out, studies, seed)
    if training_studies:
        places |= tell_how_it_learns(console, out / "learning", training_studies, seed)
    if reports:
        console.print(Rule("9. RJUA-MedDQA: report images to text, drafts, questions and scores"))
        run_meddqa_demo(out / "meddqa", console)
        if (out / "meddqa" / PICTURE).exists():  # not without a Chinese font
            places |= {"a report's boxes and its text": out / "meddqa" / PICTURE}
    console.print(Rule("Where everything is"))
    for name, path in places.items():
        console.print(f"{name:36}{path}", highlight=False, soft_wrap=True)


def _make_dataset(console: Console, out: Path, studies: int, seed: int) -> dict[str, Path]:
    """Chapters 1 to 5; what they made and where it is."""
    from mimic_cxr_vqa.contact_sheet import draw_contact_sheet
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
    from mimic_cxr_vqa.generation.question_writer import write_questions
    from mimic_cxr_vqa.phantom.tree import write_phantom
    from mimic_cxr_vqa.release import open_release, record_last_release
    from mimic_cxr_vqa.release_writer import write_release
    from mimic_cxr_vqa.sources.physionet import read_studies
    from mimic_cxr_vqa.statistics import format_tables, summarise, write_statistics
    from mimic_cxr_vqa.workspace import Workspace

    tree, workspace = out / "phantom", Workspace(out / "cxr")

    console.print(Rule(f"1. {studies} synthetic studies in the layout of MIMIC-CXR-JPG"))
    write_phantom(tree, studies, seed=seed, size=IMAGE_SIZE)
    console.print(Rule("2. Questions: six per stated label, four draws per positive one"))
    counts = write_questions(read_studies(tree), workspace, seed)["counts"]
    console.print(f"{counts['questions']:,} questions; {counts['studies_without_findings']} studies have no findings")
    console.print(Rule("3. Answers: sentences of the reports, no model"))
    answered = answer_questions(workspace, ExtractiveEngine())
    console.print(f"{answered['answered']:,} answered, {answered['failed']} failed, {answered['flagged']} flagged")
    console.print(Rule("4. Release"))
    manifest = write_release(workspace)
    record_last_release(workspace.release)
    console.print(f"{manifest['counts']['rows']:,} rows, governance class {manifest['governance']}")

    console.print(Rule('5. load_dataset("mimic_cxr_vqa", "studies", …)'))
    loaded = _load(workspace.release, tree)
    console.print(loaded)
    release = open_release(workspace.release)
    statistics = summarise(release.iterate_all(), manifest["label_counts"])
    console.print(format_tables(statistics), markup=False, highlight=False)
    console.print("No answer is closed: the extractive engine answers in sentences.\n")
    write_statistics(statistics, out)
    draw_contact_sheet(_pick_studies(loaded["train"], STUDIES_SHOWN), out / "contact_sheet.png")

    return {
        "images, reports, labels": tree,
        "release": workspace.release,
        "its card": workspace.release / "README.md",
        "tables as JSON": out / "statistics.json",
        "figure": out / "figure1.png",
        "a few studies with their questions": out / "contact_sheet.png",
    }


def _load(release: Path, image_root: Path):
    from datasets import load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    return load_dataset("mimic_cxr_vqa", "studies", data_dir=str(release), image_root=str(image_root))


def _pick_studies(rows, count: int) -> list[dict]:
    """Studies with the most different views first: frontal and lateral images side by side show more."""
    views = [len({canonical_view(view) for view in study}) for study in rows["views"]]
    return [rows[index] for index in sorted(range(len(rows)), key=lambda index: -views[index])[:count]]
