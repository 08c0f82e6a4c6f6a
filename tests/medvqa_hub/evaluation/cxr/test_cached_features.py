"""Evaluation with cached image features: the answers of evaluation without, and what shares or refuses a cache."""

from dataclasses import replace

import pytest
import torch
from builds import Build, build_release
from evaluation_models import save_blip2, save_swin_ved, texts_of
from training_runs import fast_recipe

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_manifest
from medvqa_hub.evaluation.cxr.answer_sources import open_source
from medvqa_hub.evaluation.cxr.auditing import audit_cxr
from medvqa_hub.evaluation.cxr.evaluating import evaluate_cxr
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.generating import digest_images
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings, ScoreOptions
from medvqa_hub.families.feature_cache import FeatureCache
from medvqa_hub.launching import ProcessGroup
from medvqa_hub.training.run import train
from mimic_cxr_vqa.release import open_release

STUDIES = 5
BEAMS = GenerationSettings(2, 6)
SCORES = ScoreOptions(encoder="none", examples=0)
SAVE = {"swin_ved": save_swin_ved, "blip2_multiview": save_blip2}


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=12, seed=1)


def data_options(build, **options) -> DataOptions:
    return DataOptions(build.workspace.release, "train", image_root=build.tree, limit=STUDIES, **options)


def answer(build, out, model, features=None, generation=BEAMS, change=lambda studies: studies):
    """The records of an evaluation by id."""
    answers = AnswerOptions(str(model), generation=generation, feature_cache=features, questions_per_batch=40)
    found = open_data(data_options(build))
    source, studies = open_source(answers, found, out, ProcessGroup()), change(list(found.studies))
    predictions, _ = source.predict(studies, out / "predictions.jsonl", Governance.OPEN, digest_images(studies))
    return {one.id: (one.answer, one.error, one.details) for study in predictions for one in study}


def count_encoded(monkeypatch) -> list[int]:
    passes: list[int] = []
    encode = FeatureCache._encode
    monkeypatch.setattr(
        FeatureCache, "_encode", lambda self, images: passes.append(len(images)) or encode(self, images)
    )
    return passes


@pytest.mark.parametrize("kind", SAVE)
def test_answers_are_equal_with_an_empty_and_a_full_cache(build, tmp_path, monkeypatch, kind):
    model = SAVE[kind](tmp_path / "model", texts_of(open_release(build.workspace.release)))
    plain = answer(build, tmp_path / "plain", model)
    assert len({text for text, _, _ in plain.values()}) > 3 and all(error is None for _, error, _ in plain.values())
    passes = count_encoded(monkeypatch)
    shared = tmp_path / "shared"
    assert answer(build, tmp_path / "empty", model, shared) == plain
    assert sum(passes) > 0
    passes.clear()
    assert answer(build, tmp_path / "full", model, shared) == plain and not passes
    (folder,) = shared.iterdir()
    assert read_manifest(folder, "")["governance"] == "open"


def test_another_decoder_shares_the_features_and_another_encoder_does_not(build, tmp_path, monkeypatch):
    from swin_ved import SwinVedForConditionalGeneration, SwinVedProcessor

    first = save_swin_ved(tmp_path / "first", texts_of(open_release(build.workspace.release)))
    processor, folders = SwinVedProcessor.from_pretrained(first), {}
    for part in ("decoder", "model.encoder"):
        model = SwinVedForConditionalGeneration.from_pretrained(first)
        with torch.no_grad():
            for parameter in model.get_submodule(part).parameters():
                parameter.mul_(0.9)
        folders[part] = tmp_path / part
        model.save_pretrained(folders[part])
        processor.save_pretrained(folders[part])
    shared = tmp_path / "shared"
    answer(build, tmp_path / "1", first, shared)
    passes = count_encoded(monkeypatch)
    for number, (part, folder) in enumerate(folders.items()):
        plain = answer(build, tmp_path / f"plain{number}", folder)
        assert answer(build, tmp_path / f"cached{number}", folder, shared) == plain
        assert bool(passes) == (part == "model.encoder")
    assert len(list(shared.iterdir())) == 2


def test_bfloat16_has_features_of_its_own(build, tmp_path):
    model = save_swin_ved(tmp_path / "model", texts_of(open_release(build.workspace.release)))
    half = GenerationSettings(1, 6, "bfloat16")
    shared = tmp_path / "shared"
    answer(build, tmp_path / "1", model, shared)
    plain = answer(build, tmp_path / "2", model, generation=half)
    assert answer(build, tmp_path / "3", model, shared, half).keys() == plain.keys()
    assert len(list(shared.iterdir())) == 2


def test_evaluation_reads_what_training_has_cached(build, tmp_path, monkeypatch):
    rates = "{encoder: 0, decoder: 1e-3}"
    settings = {"data__cache_features": "float32", "training__learning_rates": rates, "training__max_steps": 1}
    recipe = fast_recipe("tiny-swin-ved-stage1", data__augment=False, selection__studies=None, **settings)
    shared = tmp_path / "shared"
    train(recipe, build.workspace.root, tmp_path / "out", build.tree, features=shared)
    passes = count_encoded(monkeypatch)
    plain = answer(build, tmp_path / "plain", tmp_path / "out")
    assert answer(build, tmp_path / "cached", tmp_path / "out", shared) == plain
    assert not passes and len(list(shared.iterdir())) == 1


def test_controls_and_audit_use_the_cache(build, tmp_path, monkeypatch):
    model = save_swin_ved(tmp_path / "model", texts_of(open_release(build.workspace.release)))
    passes, results = count_encoded(monkeypatch), []
    options = data_options(build, blank_images=True)
    for name, features in (("plain", None), ("cached", tmp_path / "shared")):
        answers = AnswerOptions(str(model), generation=GenerationSettings(1, 6), feature_cache=features)
        evaluate_cxr(tmp_path / name, options, answers, SCORES)
        audit_cxr(tmp_path / f"{name}-audit", data_options(build), replace(answers, confidence=True))
        found = [path.read_text() for path in sorted(tmp_path.glob(f"{name}*/**/*predictions*.jsonl"))]
        results.append([text.splitlines()[1:] for text in found])
    assert results[0] == results[1] and len(results[0]) >= 2
    (folder,) = (tmp_path / "shared").iterdir()
    before = sum(passes)
    again = AnswerOptions(str(model), generation=GenerationSettings(2, 6), feature_cache=tmp_path / "shared")
    evaluate_cxr(tmp_path / "again", options, again, SCORES)
    assert sum(passes) == before


def test_studies_that_cannot_be_used_fail_alike(build, tmp_path):
    model = save_blip2(tmp_path / "model", texts_of(open_release(build.workspace.release)))
    (tmp_path / "damaged.png").write_bytes(b"not a picture")

    def change(studies):
        studies[1] = replace(studies[1], views=("OBLIQUE",) * len(studies[1].views))
        studies[2] = replace(studies[2], images=(tmp_path / "damaged.png", *studies[2].images[1:]))
        return studies

    plain = answer(build, tmp_path / "plain", model, change=change)
    assert answer(build, tmp_path / "cached", model, tmp_path / "shared", change=change) == plain
    errors = {error for _, error, _ in plain.values()}
    assert len(errors) == 3 and None in errors


def test_a_cache_without_a_checkpoint_is_refused(build, tmp_path):
    answers = AnswerOptions(predictions=tmp_path / "p.jsonl", feature_cache=tmp_path / "shared")
    with pytest.raises(ConfigError, match="--feature-cache only works with a checkpoint"):
        open_source(answers, open_data(data_options(build)), tmp_path, ProcessGroup())
