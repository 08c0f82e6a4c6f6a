"""`medvqa-hub demo`: the whole story on synthetic studies, with what it made kept in one folder to look at.

Chapters 1 to 5 make a dataset of a few large images. Chapters 6 to 8 train and evaluate on many small ones, so that a
tiny model learns something in minutes on a CPU. Chapter 9 reads Chinese report images. Chapters 10 and 11 are a second
act: a scripted server in a language model's place answers and judges, drawn people review, Table 3.
"""

import os
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from mimic_cxr_vqa.schema import canonical_view

IMAGE_SIZE = 384
STUDIES_SHOWN = 4
SECONDS = {
    "dataset": "ten seconds",
    "training": "three and a half minutes",
    "reports": "ten seconds",
    "checks": "seconds",
}


def run_demo(out: Path, studies: int, seed: int, training_studies: int, reports: bool) -> None:
    """Draw `studies` studies, ask and answer their questions, release, load, count and picture them, all below `out`.

    Then train on `training_studies` small ones (0: not at all) and, with `reports`, read the bundled report images. A
    second run goes on where the first one stopped.

    Raises:
        ConfigError: `out` holds a demo of another size or seed.
    """
    console = Console()
    _say_what_comes(console, studies, training_studies, reports)
    places = {"a first study": show_first_study(console, out / "first_study.jpg", seed)}
    places |= _make_dataset(console, out, studies, seed)
    if training_studies:
        from medvqa_hub.demo.learning import tell_how_it_learns  # torch: seconds, which the first study need not wait

        places |= tell_how_it_learns(console, out / "learning", training_studies, seed)
    if reports:
        from medvqa_hub.demo.meddqa import PICTURE, run_meddqa_demo

        console.print(Rule("9. RJUA-MedDQA: report images to text, drafts, questions and scores"))
        run_meddqa_demo(out / "meddqa", console)
        if (out / "meddqa" / PICTURE).exists():  # not without a Chinese font
            places |= {"a report's boxes and its text": out / "meddqa" / PICTURE}
    from medvqa_hub.demo.validating import tell_how_it_is_checked

    places |= tell_how_it_is_checked(console, out / "phantom", out / "language_model", seed)
    from medvqa_hub.demo.publishing import show_pushes

    console.print(Rule("What would be pushed to the Hub, and its card"))
    show_pushes(console, out / "cxr", out / "learning" if training_studies else None)
    console.print(Rule("Where everything is"))
    for name, path in places.items():
        console.print(f"{name:36}{path}", highlight=False, soft_wrap=True)


def _say_what_comes(console: Console, studies: int, training_studies: int, reports: bool) -> None:
    """The chapters and how long they take."""
    chapters = [f"1 to 5: {studies} synthetic studies become a dataset ({SECONDS['dataset']})"]
    if training_studies:
        chapters.append(f"6 to 8: a tiny model learns from {training_studies:,} small ones ({SECONDS['training']})")
    if reports:
        chapters.append(f"9: photographed Chinese reports are read ({SECONDS['reports']})")
    chapters.append(f"10, 11: answers are judged and reviewed, by scripted readers ({SECONDS['checks']})")
    console.print(Rule("What comes, and how long it takes on two idle cores"))
    for line in [*chapters, "Ctrl-C stops it anywhere; the same command goes on from there."]:
        console.print(line, markup=False, highlight=False)


def show_first_study(console: Console, picture: Path, seed: int) -> Path:
    """The first synthetic study at once: its report, and where its picture is."""
    from PIL import Image

    from medvqa_core.files import atomic_file, make_folder
    from mimic_cxr_vqa.phantom.drawing import draw
    from mimic_cxr_vqa.phantom.reports import write_report
    from mimic_cxr_vqa.phantom.specs import sample_studies, stream

    spec = next(sample_studies(1, seed))
    make_folder(picture.parent)
    pixels = draw(spec, spec.views[0], IMAGE_SIZE, stream(spec.seed, "picture 0", spec.study_id))
    with atomic_file(picture) as file:
        Image.fromarray(pixels).save(file, "JPEG", quality=90)
    console.print(Rule("A first study: its report, and what is drawn of it"))
    console.print(write_report(spec).text.strip(), markup=False, highlight=False)
    console.print(f"{'its picture':36}{picture}", highlight=False, soft_wrap=True)
    return picture


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
    write_phantom(tree, studies, seed=seed, size=IMAGE_SIZE, processes=os.cpu_count() or 1)
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
