"""Every command line of the README and docs, typed in the order of the page, on what the lines before made.

A line is run as it stands, but for what a test cannot have: SUBSTITUTIONS puts drawn data in place of the reader's own
and adds tiny recipes, READER_S_OWN makes what the page leaves to the reader (photos, corrected drafts, ratings).
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_server import ChatServerDouble, completion
from paths import REPOSITORY
from xlsx_sheets import fill_xlsx

from medvqa_hub.cli import run
from mimic_cxr_vqa.judging.dimensions import BEST
from mimic_cxr_vqa.phantom.tree import write_phantom
from rjua_meddqa import SAMPLE_DIR

pytestmark = pytest.mark.slow
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md")), "models/README.md"]
SHORT = (
    "--set training.epochs=null --set training.max_steps=1 --set training.studies_per_step=2"
    " --set training.studies_per_batch=2 --set data.questions_per_study=2 --set selection.every=1"
    " --set selection.studies=2 --set selection.questions_per_study=2 --set selection.max_new_tokens=4"
)
SUBSTITUTIONS = (  # pattern in a line -> what is typed instead; the order counts
    (r"/data/mimic-cxr(-jpg)?", "tree"),
    (r"train swin-ved --stage (\d)", rf"train swin-ved --recipe tiny-swin-ved-stage\1 {SHORT}"),
    (r"(--recipe tiny-swin-ved-stage3)", r"\1 --set scst.max_new_tokens=4 --set reward.name=rouge_l"),
    (r"(--recipe tiny-swin-ved-stage2)$|(--recipe tiny-swin-ved-stage2 --data out/cxr)", rf"{SHORT} \1\2"),
    (r"train blip2-multiview(?! --recipe)", f"train blip2-multiview --recipe tiny-blip2-multiview {SHORT}"),
    (r"--num_processes 8", "--cpu --num_processes 1"),
    (r"evaluate cxr --engine transformers:", "evaluate cxr --split train --limit 6 --engine transformers:"),
    (r"evaluate cxr(?! --split)", "evaluate cxr --split train --limit 6 --max-new-tokens 4"),
    (r"--reports 50", "--reports 1"),
    (r"max_steps=60", "max_steps=1"),
    (r"--recipe tiny-vlm-sft", "--recipe tiny-vlm-sft --set training.max_steps=50"),
    (r"--studies 120 --size 64", "--studies 24 --size 64"),
    (r"--preset open-10k --workers 8", "--studies 12 --size 64"),
    (r"--workers 8", "--workers 1"),
    (r"--reports 200", "--reports 2"),
)
# `--out` of these commands is a build that exists.
ON_A_BUILD = ("answer", "judge", "review", "table3", "release", "status", "rebuild-spec")
NOT_TYPED = {  # first words of a line -> why it is left out
    "make demo": "the demo has a test of its own",
    "make test": "these are the tests",
    "medvqa-hub explore": "it serves until it is stopped; tests/medvqa_hub/explore starts it",
    "pip install": "tests do not use the network",
    "python3.11 -m venv": "the tests run in an environment of their own",
    ". .venv/bin/activate": "the tests run in an environment of their own",
}


def lines_of(page: str) -> list[str]:
    """The lines of a page's bash blocks, continued ones joined."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:bash|console|sh)\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def typed(line: str) -> list[str]:
    """The words of a line after substitution."""
    for pattern, replacement in SUBSTITUTIONS:
        line = re.sub(pattern, replacement, line)
    return shlex.split(line, comments=True)


# What a reader has, or does between two lines: made when a line first names it.
def _photos(place: Path) -> None:
    place.mkdir()
    for number, name in enumerate(("one.jpg", "two.png")):
        shutil.copy(SAMPLE_DIR / "images" / ("report0004.jpg", "report0002.png")[number], place / name)


def _corrected(place: Path) -> None:
    shutil.copytree(place.parent / "drafts", place)  # nothing was to correct


def _export(place: Path) -> None:
    tasks = json.loads((place.parent / "tasks" / "tasks.json").read_text(encoding="utf-8"))
    for task in tasks:
        task["annotations"] = [{"result": task["predictions"][0]["result"]}]
    place.write_text(json.dumps(tasks), encoding="utf-8")


def _findings(place: Path) -> None:
    shutil.copy(SAMPLE_DIR / "contexts.csv", place.parent / "corrected")  # the context base beside the annotations
    place.write_text((SAMPLE_DIR / "findings.csv").read_text(encoding="utf-8").replace("report0002.png", "two.png"))


def _ratings(place: Path) -> None:
    rows = [f"{rater},{item},Correct" for rater in "ab" for item in (1, 2, 3)]
    place.write_text("\n".join(["rater,item,correctness", *rows]) + "\n", encoding="utf-8")


def _filled(place: Path) -> None:
    """Sheets of `cxr review export`, filled in by raters who find nothing."""
    place.mkdir()
    verdicts = {f"item-{number:03}": BEST for number in range(1, 101)}
    for folder in (place.parent / "out/cxr/review/for_raters").iterdir():
        fill_xlsx(shutil.copy(folder / "sheet.xlsx", place / f"{folder.name}.xlsx"), verdicts)


def _release_of_the_first_hour(place: Path) -> None:
    lines = lines_of("docs/first_hour.md")
    first = next(number for number, line in enumerate(lines) if line.startswith("medvqa-hub cxr phantom"))
    for line in lines[first : first + 4]:
        assert run(typed(line)[1:]) == 0, line
    assert (place / "release").is_dir()


def _build(place: Path) -> None:
    """The guides' build of the reader's own copy."""
    questions = "medvqa-hub cxr questions --root /data/mimic-cxr-jpg --reports /data/mimic-cxr"
    for line in (f"{questions} --source phantom --out out/cxr", "medvqa-hub cxr answer --out out/cxr"):
        assert run(typed(line)[1:]) == 0, line
    assert run(typed("medvqa-hub cxr release --out out/cxr")[1:]) == 0
    assert (place / "release").is_dir()


def _model(place: Path) -> None:
    """A model that was trained on the guides' build."""
    if not (place.parent / "cxr").exists():
        _build(place.parent / "cxr")
    data = "--data out/cxr --image-root /data/mimic-cxr-jpg"
    assert run(typed(f"medvqa-hub train swin-ved --stage 2 {data} --out out/stage3")[1:]) == 0
    assert (place / "config.json").is_file()


def _scores(place: Path) -> None:
    data = "--data out/cxr --image-root /data/mimic-cxr-jpg"
    assert run(typed(f"medvqa-hub evaluate cxr --model out/stage3 {data} --out out/scores")[1:]) == 0
    assert (place / "results.json").is_file()


def _answered(place: Path) -> None:
    """What some machine made of the exported batch files."""
    body = completion(json.dumps({"answer": "The lungs are clear."}))
    files = sorted((place.parent / "out/to-answer").glob("*.jsonl"))
    asked = [json.loads(line)["custom_id"] for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    results = [{"custom_id": name, "response": {"status_code": 200, "body": body}, "error": None} for name in asked]
    place.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")


READER_S_OWN: dict[str, Callable[[Path], None]] = {
    "tree": lambda place: None,  # drawn once, below
    "photos": _photos,
    "corrected": _corrected,
    "export.json": _export,
    "findings.csv": _findings,
    "ratings.csv": _ratings,
    "filled": _filled,
    "results.jsonl": _answered,
    "out/hour/cxr": _release_of_the_first_hour,
    "out/cxr": _build,
    "out/stage3": _model,
    "out/scores": _scores,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("drawn") / "tree"
    write_phantom(place, 24, seed=0, size=64)
    return place


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_lines_run_in_their_order(page, tree, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tree").symlink_to(tree)
    with ChatServerDouble(lambda body: completion('{"answer": "No."}')) as double:
        _type_lines(page, tmp_path, double.endpoint, capsys)


def _type_lines(page, tmp_path, server, capsys):
    for line in lines_of(page):
        if line.startswith(tuple(NOT_TYPED)):
            continue
        words = typed(line.replace("http://127.0.0.1:8000/v1", server))
        assert words[0] in ("medvqa-hub", "python"), f"{page}: {line!r} is no line that this test can type"
        outputs = {words[i + 1] for i, word in enumerate(words[:-1]) if word == "--out"}
        if words[1] == "cxr" and words[2] in ON_A_BUILD:
            outputs = set()
        for name, make in READER_S_OWN.items():
            named = any(word == name or word.startswith(f"{name}/") for word in words)
            if named and name not in outputs and not (tmp_path / name).exists():
                make(tmp_path / name)
        if words[0] == "python":
            subprocess.run([sys.executable, REPOSITORY / words[1], *words[2:]], check=True)
        else:
            assert run(words[1:]) == 0, f"{page}: {line}\n{capsys.readouterr().err[-2000:]}"
