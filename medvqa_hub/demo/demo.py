"""`medvqa-hub demo`: run the README's commands on synthetic data and summarise what they made.

The dataset has a few large images. Training uses many small ones, so that a tiny model learns something within minutes
on a CPU. Every command is printed as a user would type it, with the first lines of its output.
"""

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule

from medvqa_core.install_hint import install

IMAGE_SIZE = 384  # pixels
PAGES = 6
OCR_MODULES = ("rapidocr", "onnxruntime", "cv2")
# Smaller steps and no dropout than in the tiny recipes
EPOCHS = {"encoder": 6, 1: 0.25, 2: 1.5}
SMALL_STEPS = ["training.studies_per_step=4", "training.studies_per_batch=4"]
QUICK = [
    *SMALL_STEPS, "training.learning_rates.decoder=1.5e-3", "model.decoder.hidden_dropout_prob=0.0",
    "model.decoder.attention_probs_dropout_prob=0.0", "training.save_every=100", "data.workers=1",
]  # fmt: skip
STEPS_OF_STAGE_3 = 40
STUDIES_EVALUATED = 60
STUDIES_VALIDATED = 8  # while stage 3 trains
METRICS = {"bleu_4": "BLEU-4", "rouge_l": "ROUGE-L", "cider": "CIDEr", "bertscore": "BERTScore"}
Command = Callable[[Sequence[str]], object]


class Demo:
    """One run of the demo.

    Args:
        command: runs one command line of medvqa-hub.
        out: folder for everything that the demo makes.
    """

    def __init__(self, command: Command, out: Path) -> None:
        self._command, self._out = command, out
        self._console = Console(highlight=False, soft_wrap=True)
        self._summary: list[tuple[str, object]] = []

    def run(self, studies: int, seed: int, training_studies: int, reports: bool) -> None:
        """Run all chapters. A second run resumes where the first one was interrupted.

        Raises:
            ConfigError: the folder holds a demo with another size or seed.
        """
        self._print("Runs the README's commands on synthetic data, in about four minutes on two idle CPU cores.")
        self._print("Nothing is downloaded or sent. Safe to interrupt: run the same command again to resume.")
        self._build(studies, seed)
        if training_studies:
            self._train(training_studies, seed)
        missing = [name for name in OCR_MODULES if find_spec(name) is None]
        if reports and missing:
            self._print(f"Report images are skipped. They need {', '.join(missing)}: {install('ocr')}")
        elif reports:
            self._read_reports(seed)
        self._publish(bool(training_studies))
        self._title("Summary")
        look = f"medvqa-hub explore {self._out / 'cxr'} --image-root {self._out / 'phantom'}"
        for name, value in [*self._summary, ("look at it in the browser", look)]:
            self._print(f"{name:32}{value}")

    def _build(self, studies: int, seed: int) -> None:
        """From synthetic images and reports to a dataset."""
        out, tree, build = self._out, self._out / "phantom", self._out / "cxr"
        self._title("Build a dataset from chest X-ray reports")
        self._show(f"cxr phantom --out {tree} --studies {studies} --seed {seed} --size {IMAGE_SIZE}", 0)
        self._show(f"cxr questions --source phantom --root {tree} --out {build} --seed {seed}", 1)
        self._show(f"cxr answer --out {build}", 1)
        self._show(f"cxr judge --out {build}", 1)
        self._show(f"cxr release --out {build}", 0)
        self._show(f"cxr stats --data {build} --out {out / 'stats'}", 8)
        self._title("Load it")
        self._load(build, tree)
        self._summary += [("dataset", build / "release"), ("its card", build / "release" / "README.md")]
        self._summary.append(("tables and figure of the paper", out / "stats"))

    def _load(self, build: Path, tree: Path) -> None:
        from datasets import disable_progress_bars, load_dataset

        import mimic_cxr_vqa  # noqa: F401 - registers the builder
        from mimic_cxr_vqa.contact_sheet import draw_contact_sheet

        disable_progress_bars()
        self._print(f'>>> rows = load_dataset("mimic_cxr_vqa", "studies", data_dir="{build}", image_root="{tree}")')
        rows = load_dataset("mimic_cxr_vqa", "studies", data_dir=str(build), image_root=str(tree))
        views = rows["train"]["views"]
        several = sorted(range(len(views)), key=lambda place: -len(set(views[place])))[:4]
        shown = [rows["train"][place] for place in several]
        first = shown[0]
        self._print(f"  {', '.join(f'{split}: {len(part)} studies' for split, part in rows.items())}")
        self._print(f"  A study with {len(first['images'])} images, views {', '.join(map(str, first['views']))}.")
        self._print(f"  Findings: {' '.join(first['findings'].split())}")
        for question in first["questions"][:3]:
            self._print(f"  Q: {question['question']}  A: {question['answer']}")
        draw_contact_sheet(shown, self._out / "contact_sheet.png")
        self._summary.append(("four studies as a picture", self._out / "contact_sheet.png"))

    def _train(self, studies: int, seed: int) -> None:
        """A tiny SwinVED learns from small images and is evaluated on other patients."""
        from medvqa_hub.demo import training
        from medvqa_hub.demo.encoder import EncoderSettings

        self._title("Train and evaluate a tiny SwinVED")
        out = self._out / "learning"
        self._print(f"Building {studies:,} more studies with {training.IMAGE_SIZE}-pixel images in {out}.")
        data, tree = training.make_release(out, studies, seed)
        encoder = EncoderSettings(epochs=int(EPOCHS["encoder"]))
        context = training.DemoContext(data, tree, out, encoder, quick_overrides(), STUDIES_EVALUATED)
        if not training.has_text_encoder():
            self._print(f"BERTScore needs {install('encoder')}. Stage 3 uses ROUGE-L as reward instead.")
        auc = training.train_encoder(context)["validation_auc"]
        self._print(f"The encoder was pretrained on the labels. Its area under the ROC curve is {auc}.")
        results = {}
        for stage in training.STAGES:
            start = f"--init {out / f'stage{stage - 1}'} " if stage > 1 else ""
            self._print(
                f"$ medvqa-hub train swin-ved --recipe tiny-swin-ved-stage{stage} {start}--data {data} --image-root "
                f"{tree} --out {out / f'stage{stage}'}  (with fewer steps)"
            )
            training.train_stage(context, stage, log=lambda line: None)
            results[stage] = training.evaluate_stage(context, stage, shuffle=stage == 2)
        self._print(f"$ medvqa-hub evaluate cxr --model {out}/stageN … --shuffle-images  (first {STUDIES_EVALUATED})")
        self._console.print(results_table(results))
        self._print(
            "Finding accuracy compares the finding in an answer with its label. It is lower with another patient's"
        )
        self._print("images (shuffled) if the model uses the images.")
        own, shuffled = (result["findings"] for result in results[2])
        accuracy = f"{own['accuracy']:.2f} with the own images, {shuffled['accuracy']:.2f} with another patient's"
        self._summary += [("trained model", out / "stage3" / "best"), ("its finding accuracy (stage 2)", accuracy)]
        self._summary.append(("answers beside their images", out / "scores3" / "examples.png"))

    def _read_reports(self, seed: int) -> None:
        """From photographed Chinese reports to text, annotation, questions and scores."""
        from rjua_meddqa.page_picture import write_page_picture
        from rjua_meddqa.restoration.pages import read_pages

        self._title("Read Chinese medical reports")
        out = self._out / "meddqa"
        drawn, pages, scores = out / "reports", out / "scores" / "pages", out / "scores"
        self._show(f"meddqa phantom --out {drawn} --reports {PAGES} --seed {seed}", 0)
        self._show(f"meddqa esra --images {drawn / 'images'} --out {pages} --governance open", 0)
        page = max(read_pages(pages), key=lambda page: len(page.boxes))
        self._print(f"  The text of {page.image}, as restored:")
        for line in page.restored.text.splitlines()[:8]:
            self._print(f"    {line}")
        self._show(f"meddqa preannotate --pages {pages} --out {out / 'drafts'}", 1)
        self._show(f"meddqa check --data {drawn} --pages {pages}", 3)
        self._show(f"meddqa generate --data {drawn} --out {out / 'questions'}", 1)
        self._show(f"evaluate meddqa --data {out / 'questions'} --image-root {drawn / 'images'} --out {scores}", 0)
        results = json.loads((scores / "results.json").read_text(encoding="utf-8"))["scores"]["all"]
        self._print(f"  esra-rules answers from the restored text alone, with an accuracy of {results['accuracy']:.3f}")
        write_page_picture(page, drawn / "images" / page.image, out / "page.png")
        self._summary.append(("a report with its restored text", out / "page.png"))

    def _publish(self, trained: bool) -> None:
        """Dry runs, which send nothing."""
        self._title("Publish (dry run, nothing is sent)")
        learning = self._out / "learning"
        self._show(f"push dataset {self._out / 'cxr'} --repo-id me/mimic-cxr-vqa-phantom --dry-run", 2)
        if trained:
            scores = f"--scores {learning / 'scores3'} --workspace {learning / 'cxr'}"
            self._show(f"push model {learning / 'stage3'} --repo-id me/swin-ved-phantom {scores} --dry-run", 2)

    def _show(self, arguments: str, lines: int) -> None:
        """Print a command, run it and print the first lines of its output."""
        self._print(f"$ medvqa-hub {arguments}")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self._command(arguments.split())
        for line in [line for line in printed.getvalue().splitlines() if line.strip()][:lines]:
            self._print(f"  {line}")

    def _title(self, title: str) -> None:
        self._console.print(Rule(title))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False)


def quick_overrides() -> dict[int | str, list[str]]:
    """Settings that make the tiny recipes short enough for the demo."""
    third = [f"training.max_steps={STEPS_OF_STAGE_3}", f"selection.every={STEPS_OF_STAGE_3 // 2}"]
    third += [f"selection.studies={STUDIES_VALIDATED}", "training.log_every=4", "training.save_every=10", *SMALL_STEPS]
    return {**{stage: [f"training.epochs={EPOCHS[stage]}", *QUICK] for stage in (1, 2)}, 3: third}


def results_table(results: dict[int, list[dict[str, Any]]]) -> Any:
    """A row for each stage, with one for shuffled images, and one for always giving the more frequent label."""
    from medvqa_hub.evaluation.cxr.printing import make_table, number

    table = make_table("", *METRICS.values(), "finding", "balanced")
    for stage, conditions in results.items():
        for name, result in zip(("", ", shuffled"), conditions, strict=False):
            found = result["findings"]
            scores = [result["table_4"].get(metric) for metric in METRICS]
            table.add_row(
                f"stage {stage}{name}", *map(number, (*scores, found["accuracy"], found["balanced_accuracy"]))
            )
    majority = results[1][0]["findings"]["majority"]
    table.add_row("more frequent label", *["-"] * len(METRICS), number(majority), "0.5000")
    return table
