"""The README: its figures are those of the result files, and its Python lines run."""

import re

from paths import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_figures_are_those_of_the_result_files(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import readme

    assert readme.replace_tables(README) == README, "run: python benchmarks/readme.py"


def test_loading_lines_run(tmp_path, monkeypatch):
    """The Python block as written, on a build in place of the reader's own."""
    from builds import build_release

    build = build_release(tmp_path, studies=12)
    block = blocks("python")[0]
    block = block.replace("out/cxr", str(build.workspace.root)).replace("/data/mimic-cxr-jpg", str(build.tree))
    monkeypatch.setenv("MIMIC_CXR_VQA_DIR", str(build.workspace.root))
    assert block.count("load_dataset(") >= 5
    exec(compile(block, "README.md", "exec"), {})


def test_model_lines_run(tmp_path):
    """The second Python block, on a tiny model in place of a trained one."""
    from datasets import load_dataset
    from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedProcessor, train_tokenizer

    from mimic_cxr_vqa import SAMPLE_DIR

    study = load_dataset("mimic_cxr_vqa", "studies", data_dir=SAMPLE_DIR, image_root=SAMPLE_DIR, split="test")[0]
    tokenizer = train_tokenizer([question["question"] for question in study["questions"]])
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    SwinVedForConditionalGeneration(config).save_pretrained(tmp_path / "out")
    SwinVedProcessor.from_config(config, tokenizer).save_pretrained(tmp_path / "out")
    names = {"study": study}
    block = blocks("python")[1].replace("out/stage3", str(tmp_path / "out"))
    exec(compile(block, "README.md", "exec"), names)
    assert len(names["answers"]) == len(study["questions"])


def test_the_tree_names_existing_files():
    (tree,) = blocks("text")
    packages = {path.name for path in REPOSITORY.iterdir()}
    for name in re.findall(r"^(\w+)/", tree, re.MULTILINE):
        assert name in packages
    for name in re.findall(r"\b(\w+\.py)\b", tree):
        assert list(REPOSITORY.glob(f"[mr]*/**/{name}")), name


def test_metric_lines_run(capsys):
    block = blocks("python")[2].replace("metric.compute(", "row = metric.compute(")
    scope = {}
    exec(compile(block, "README.md", "exec"), scope)
    assert 0 < scope["row"]["bleu_1"] < 1


def test_every_python_block_is_run_by_a_test_above():
    assert len(blocks("python")) == 3
