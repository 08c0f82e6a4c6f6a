"""The model card's code, as rendered, runs on a saved folder where this package is not installed."""

import re

import pytest
from jinja2 import Environment, StrictUndefined
from PIL import Image
from swin_ved import SwinVedForConditionalGeneration
from swin_ved_clean import run_clean
from swin_ved_tiny import tiny_processor

from hub_cards import template_path


def render(**changes) -> str:
    _, config = tiny_processor()
    values = {
        "card_data": "license: other", "title": "SwinVED, tiny", "repository": "saved", "governance": "open",
        "parameters": 1_000_000, "vocab_size": config.decoder.vocab_size, "max_images": config.max_images,
        "image_size": config.encoder.image_size, "tokens_per_image": config.tokens_per_image,
        "decoder_layers": config.decoder.num_hidden_layers, "training": "- Random weights.", "scores": {},
    }  # fmt: skip
    template = Environment(undefined=StrictUndefined).from_string(template_path("swin_ved").read_text())
    return template.render(**values | changes)


def test_snippets_run_on_a_saved_folder(tmp_path):
    processor, config = tiny_processor()
    SwinVedForConditionalGeneration(config).save_pretrained(tmp_path / "saved")
    processor.save_pretrained(tmp_path / "saved")
    for name in ("frontal.png", "lateral.png"):
        Image.effect_noise((90, 110), 60).save(tmp_path / name)
    snippets = re.findall(r"```python\n(.*?)```", render(), re.DOTALL)
    assert len(snippets) == 2
    code = "\n".join(snippets) + "\nassert len(answers) == 2 and all(isinstance(answer, str) for answer in answers)\n"
    assert run_clean(code, tmp_path, tmp_path / "cache").count("[") == 2  # two printed lists


@pytest.mark.parametrize(
    ("governance", "text"),
    [
        ("open", "No patient is behind"),
        ("credentialed", "PhysioNet Credentialed"),
        ("share-alike", "no commercial use"),
        ("no-derivatives", "made, not shared"),
    ],
)
def test_card_states_the_governance_class(governance, text):
    card = render(governance=governance, scores={"BLEU-1": 0.25})
    assert f"## Governance class: {governance}" in card
    assert text in card
    assert "| BLEU-1 | 0.25 |" in card
