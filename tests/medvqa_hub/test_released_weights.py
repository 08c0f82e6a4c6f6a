"""Weights that the release's own label layout produced: converted, evaluated, and trained further.

A tiny model is trained by a few lines of the release's recipe (helpers/swin_ved_released.py), with [PAD]s in the loss
and [EOS] behind them. What fails without the conversion's settings: texts in lower case are other words; answers that
end in [PAD] run on to the limit; self-critical training counts a row of [PAD]s as if it were the answer.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from builds import build_release
from swin_ved import SwinVedProcessor, convert_swin_ved, load_vocabulary
from swin_ved.modeling_swin_ved import SwinVedEncoderOutput
from swin_ved_released import (
    ANSWER,
    BOS,
    PAD,
    QUESTION,
    SPECIALS,
    ReleasedSwinVed,
    cut,
    released_names,
    write_vocabulary,
)
from training_runs import fast_recipe

from medvqa_core.errors import ConfigError
from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer, read_image
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.evaluation.cxr.studies import load_studies
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.run import train
from medvqa_hub.training.scst_rollout import encode_images, read_prompts, roll_out
from medvqa_hub.training.training_log import read_log
from mimic_cxr_vqa.release import open_release

pytestmark = pytest.mark.slow
STUDIES, QUESTIONS, STEPS = 2, 8, 60


@dataclass
class Released:
    model: ReleasedSwinVed
    folder: Path
    studies: list
    features: torch.Tensor
    processor: SwinVedProcessor


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=12)


@pytest.fixture(scope="module", params=["lower-case vocabulary", "cased vocabulary"])
def released(request, build, tmp_path_factory) -> Released:
    """Trained as released, converted, and saved beside its processor."""
    folder = tmp_path_factory.mktemp("released")
    studies = load_studies(open_release(build.workspace.root), "train", build.tree, STUDIES)
    studies = [replace(study, rows=study.rows[:QUESTIONS]) for study in studies]
    pairs = [(row["question"], row["answer"]) for study in studies for row in study.rows]
    texts = [text for pair in pairs for text in pair]
    torch.manual_seed(0)
    file = folder / "vocab.txt"
    model = ReleasedSwinVed(write_vocabulary(file, texts, cased=request.param.startswith("cased")))
    processor = SwinVedProcessor.from_config(model.config, load_vocabulary(file))
    images = StudyImages(processor, studies)
    features = model.features(images.pixels, images.present).detach()
    rows = torch.tensor([number for number, study in enumerate(studies) for _ in study.rows])
    assert model.learn(pairs, features[rows], STEPS) < 0.1
    torch.save(released_names(model.state_dict()), folder / "best.pt")
    converted = convert_swin_ved(folder / "best.pt", model.config)
    converted.save_pretrained(folder / "model")
    processor.save_pretrained(folder / "model")
    (folder / "model" / "governance.json").write_text(json.dumps({"governance": "open"}))
    return Released(model, folder / "model", studies, features, processor)


class StudyImages:
    """Pixels (studies, 3, 3, H, W) with zeros for missing images, and which are present."""

    def __init__(self, processor, studies) -> None:
        batch = processor(images=[[read_image(path) for path in study.images] for study in studies])
        self.pixels, self.present = batch["pixel_values"], batch["image_mask"]


def test_evaluation_gives_the_release_s_own_answers(released):
    """Greedily, all of them, ended; read from the folder as `evaluate cxr` does, several questions at once."""
    answerer = StudyAnswerer(open_checkpoint(str(released.folder)), GenerationSettings(num_beams=1))
    images = answerer.prepare_images(released.studies)
    questions = [(row["question"], number) for number, study in enumerate(released.studies) for row in study.rows]
    answers = answerer.answer(images, [text for text, _ in questions], [number for _, number in questions])
    expected = [released.model.answer(text, released.features[number : number + 1]) for text, number in questions]
    assert len({tuple(ids) for ids in expected}) > 5  # it learnt to tell questions apart
    assert [answer.text for answer in answers] == [released.model.text(ids) for ids in expected]
    assert [answer.tokens for answer in answers] == [len(ids) + 1 for ids in expected]
    assert not any(answer.truncated for answer in answers)
    beams = StudyAnswerer(open_checkpoint(str(released.folder)), GenerationSettings())
    answers = beams.answer(images, [text for text, _ in questions], [number for _, number in questions])
    expected = [
        released.model.answer(text, released.features[number : number + 1], beams=2) for text, number in questions
    ]
    assert [answer.text for answer in answers] == [released.model.text(ids) for ids in expected]
    assert not any(answer.truncated for answer in answers)


def test_beams_are_compared_without_normalising_by_length(build):
    """Halfway through its training the normalisation decides on two thirds of the answers."""
    studies = load_studies(open_release(build.workspace.root), "train", build.tree, STUDIES)
    pairs = [(row["question"], row["answer"]) for study in studies for row in study.rows[:QUESTIONS]]
    torch.manual_seed(0)
    words = sorted({word for pair in pairs for text in pair for word in re.findall(r"\w+|[^\w\s]+", text)})
    released = ReleasedSwinVed([*SPECIALS, "[BOS]", "[EOS]", *words])
    features = torch.randn(1, 4, released.config.decoder.hidden_size)
    released.learn(pairs, features.expand(len(pairs), -1, -1), 40)
    converted = convert_swin_ved(released_names(released.state_dict()), released.config)
    ways = {"as released": {}, "ended and normalised": {"eos_token_id": PAD, "length_penalty": 1.0}}
    found = {name: [] for name in ways}
    config = converted.generation_config
    assert (config.num_beams, config.length_penalty) == (2, 0.0)
    for question, _ in pairs[:20]:
        prompt = torch.tensor([[*[id for id in released.prompt(question)[:-1] if id != PAD], BOS]])
        for name, settings in ways.items():
            ids = converted.generate(
                input_ids=prompt, attention_mask=torch.ones_like(prompt), num_beams=2, do_sample=False,
                encoder_outputs=SwinVedEncoderOutput(features), **settings,
            )[0, prompt.shape[1] :].tolist()  # fmt: skip
            found[name].append(cut(ids))
    expected = [released.answer(question, features, beams=2) for question, _ in pairs[:20]]
    assert found["as released"] == expected
    assert found["ended and normalised"] != expected


def test_a_beam_that_wrote_padding_keeps_its_place():
    """Random weights that write [PAD] early. Ended there, it would make room for a beam that the release drops."""
    words = [f"w{number}" for number in range(30)]
    released = ReleasedSwinVed([*SPECIALS, "[BOS]", "[EOS]", *words])
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in released.decoder.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.2, generator=generator)
        released.decoder.lm_head.bias[PAD] += 3
    converted = convert_swin_ved(released_names(released.state_dict()), released.config)
    features = torch.randn(1, 4, released.config.decoder.hidden_size, generator=generator)
    questions = [f"w{number} w{number + 1} w{number + 2}" for number in range(25)]
    prompts = torch.tensor([[token for token in released.prompt(question) if token != PAD] for question in questions])
    expected = released.decode(questions, features, beams=2)
    assert sum(len(ids) > 1 for ids in expected) > 5 and sum(len(ids) < 20 for ids in expected) > 5
    settings = {"encoder_outputs": SwinVedEncoderOutput(features), "study_index": torch.zeros(25, dtype=torch.long)}
    sequences = converted.generate(input_ids=prompts, **settings)
    assert [cut(ids) for ids in sequences[:, prompts.shape[1] :].tolist()] == expected


def test_released_targets_give_the_released_loss_and_gradient(released):
    """One batch in float64, with random weights, so that no gradient vanishes."""
    torch.manual_seed(3)
    model = ReleasedSwinVed(released.model.tokens).double()
    converted = convert_swin_ved(released_names(model.state_dict()), model.config).double()
    study = released.studies[0]
    pairs = [(row["question"], row["answer"]) for row in study.rows[:QUESTIONS]]
    images = {"images": [[read_image(path) for path in study.images]]}
    questions, answers = zip(*pairs, strict=True)
    processor = SwinVedProcessor.from_config(model.config, released.processor.tokenizer, max_answer_tokens=ANSWER)
    batch = processor(**images, text=list(questions), answers=list(answers), released_targets=True)
    features = model.features(batch["pixel_values"].double(), batch["image_mask"]).expand(len(pairs), -1, -1)
    ids = torch.tensor([model.prompt(question) + model.target(answer) for question, answer in pairs])
    assert torch.equal(batch["input_ids"], ids)
    assert int((batch["labels"] != -100).sum()) == len(pairs) * ANSWER
    expected = model.loss(pairs, features)
    loss = converted(**batch).loss
    expected.backward()
    loss.backward()
    torch.testing.assert_close(loss, expected, check_dtype=False)
    wanted = dict(model.named_parameters())

    def cosine(part: str) -> float:
        """Of the gradients of all parameters of a part, ours against the release's."""
        pairs = [
            (parameter.grad.flatten(), wanted[name.replace("model.encoder.", "encoder.", 1)].grad.flatten())
            for name, parameter in converted.named_parameters()
            if name.startswith(part)
        ]
        ours, theirs = (torch.cat(gradients) for gradients in zip(*pairs, strict=True))
        return torch.nn.functional.cosine_similarity(ours, theirs, 0).item()

    assert min(cosine("model.encoder."), cosine("decoder.")) > 0.999999
    converted.zero_grad()
    converted(**processor(**images, text=list(questions), answers=list(answers))).loss.backward()
    assert max(cosine("model.encoder."), cosine("decoder.")) < 0.9  # the loss of an answer's own tokens differs


def test_the_checkpoint_carries_what_its_weights_need(released):
    answerer = StudyAnswerer(open_checkpoint(str(released.folder)), GenerationSettings(num_beams=1))
    config = answerer.model.generation_config
    assert (config.eos_token_id, config.pad_token_id, config.max_new_tokens) == ([6, 1], 1, 63)
    assert answerer.model.config.answer_position == QUESTION
    for study in released.studies:
        for row in study.rows:
            for text in (row["question"], row["answer"]):
                ids = answerer.processor.tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
                assert ids == released.model.read(text)


def roll(released: Released, limit: int = 30):
    """Greedy and sampled answers to the questions of the first study, as a self-critical step takes them."""
    answerer = StudyAnswerer(open_checkpoint(str(released.folder)), GenerationSettings(num_beams=1))
    study = released.studies[0]
    words = answerer.processor(
        text=[row["question"] for row in study.rows], answers=[row["answer"] for row in study.rows],
        study_index=[0] * len(study.rows),
    )  # fmt: skip
    batch = {**answerer.prepare_images([study]), **words}
    return answerer.model, batch, limit


def test_a_self_critical_step_counts_no_padding(released):
    model, batch, limit = roll(released)
    prompts, encoded = read_prompts(batch, True), encode_images(model, batch)
    seeds = list(range(len(batch["input_ids"])))

    def lengths() -> tuple[list[int], list[int]]:
        greedy, sample = roll_out(model, prompts, encoded, seeds, max_new_tokens=limit)
        return greedy.mask.sum(1).tolist(), sample.mask.sum(1).tolist()

    expected = [
        len(released.model.answer(row["question"], released.features[:1])) + 1 for row in released.studies[0].rows
    ]
    greedy, sample = lengths()
    assert greedy == [min(length, limit) for length in expected] and min(expected) < 20
    assert sum(sample) < 1.5 * sum(greedy)
    model.generation_config.eos_token_id = 6  # the wrong setting: every answer goes on, in [PAD]s, to its last place
    wrong, _ = lengths()
    assert set(wrong) == {ANSWER}


def test_self_critical_training_starts_from_it(released, build, tmp_path):
    recipe = fast_recipe("tiny-swin-ved-stage3", training__max_steps=2, scst__max_new_tokens=30, reward__name="rouge_l")
    out = train(recipe, build.workspace.root, tmp_path / "out", build.tree, released.folder)
    lines = [line for line in read_log(tmp_path / "out") if "sample_length" in line]
    assert lines and all(line["greedy_length"] < 30 for line in lines)
    assert open_checkpoint(str(out)).folder == tmp_path / "out" / "best"  # a run's folder, as --init takes it
    trained = StudyAnswerer(open_checkpoint(str(out)), GenerationSettings(num_beams=1))
    assert trained.model.generation_config.eos_token_id == [6, 1]
    assert trained.model.generation_config.max_new_tokens == 63


def test_training_with_released_targets_keeps_the_released_decoding(build, tmp_path):
    recipe = fast_recipe(
        training__max_steps=2,
        training__targets="released",
        training__hard_negatives=True,
        training__scheduler="constant",
    )
    out = train(recipe, build.workspace.root, tmp_path / "out", build.tree)
    model = StudyAnswerer(open_checkpoint(str(out)), GenerationSettings(num_beams=1)).model
    assert model.config.answer_position == recipe.model.max_question_tokens
    assert model.generation_config.eos_token_id == [6, 1]
    with pytest.raises(ConfigError, match="training.targets"):
        fast_recipe("tiny-swin-ved-stage3", training__targets="released")
    with pytest.raises(ConfigError, match="training.targets"):
        load_recipe("tiny-blip2-multiview", ["training.targets=released"])
