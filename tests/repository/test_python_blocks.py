"""Every Python block of the pages runs, in the order of its page, and prints the `text` block behind it.

The first hour has a test of its own (test_first_hour.py). A build and a tiny model take the place of the reader's own.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest
from builds import build_release
from paths import REPOSITORY

PAGES = ["README.md", "models/README.md", *(f"docs/{path.name}" for path in sorted((REPOSITORY / "docs").glob("*.md")))]
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The code of each Python block and the output that the page shows for it, "" for none."""
    return BLOCK.findall((REPOSITORY / page).read_text(encoding="utf-8"))


WITH_BLOCKS = [page for page in PAGES if blocks(page) and page != "docs/first_hour.md"]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=12)


@pytest.fixture(scope="module")
def study():
    from datasets import load_dataset

    from mimic_cxr_vqa import SAMPLE_DIR

    return load_dataset("mimic_cxr_vqa", "studies", data_dir=SAMPLE_DIR, image_root=SAMPLE_DIR, split="test")[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory, study) -> Path:
    """A tiny SwinVED with random weights."""
    from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedProcessor, train_tokenizer

    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([question["question"] for question in study["questions"]])
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    SwinVedForConditionalGeneration(config).save_pretrained(folder)
    SwinVedProcessor.from_config(config, tokenizer).save_pretrained(folder)
    return folder


def test_pages_have_python_blocks():
    assert {"README.md", "docs/cxr.md", "docs/meddqa.md", "docs/metrics.md", "docs/training.md"} <= set(WITH_BLOCKS)


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_blocks_of_a_page_run_and_print_what_it_shows(page, build, study, model, monkeypatch):
    monkeypatch.setenv("MIMIC_CXR_VQA_DIR", str(build.workspace.root))
    scope = {"study": study}
    for code, shown in blocks(page):
        for name in ("out/stage3", "out/tiny"):
            code = code.replace(name, str(model))
        code = code.replace("out/cxr", str(build.workspace.root)).replace("/data/mimic-cxr-jpg", str(build.tree))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), scope)
        assert printed.getvalue() == shown or not shown
    if page == "docs/training.md":
        assert len(scope["answers"]) == len(study["questions"])
