"""transformers' own common tests (ModelTesterMixin, GenerationTesterMixin) on both models.

They are not in the wheel of transformers. TRANSFORMERS_TESTS names the folder `tests` of a checkout of that version, or
of its source distribution (`pip download --no-binary :all: --no-deps transformers==VERSION`), which lacks the folders
`generation` and `exporters`: then GenerationTesterMixin is left out. The package `parameterized` must be installed:

    TRANSFORMERS_TESTS=FOLDER pytest -o addopts=--import-mode=importlib tests/models/test_transformers_common.py

SKIPPED lists the tests that do not apply, with the reasons. Those of GenerationTesterMixin were found with tests of
its version of early 2025. Training is tested in tests/medvqa_hub/training.
"""

import copy
import importlib
import os
import sys
import types
import unittest
from pathlib import Path

import pytest
import torch
from blip2_multiview import Blip2MultiViewForConditionalGeneration, Blip2MultiViewProcessor
from blip2_multiview_models import make_model
from PIL import Image
from swin_ved import SwinVedForConditionalGeneration
from swin_ved_tiny import TEXTS, tiny_model, tiny_processor

FOLDER = os.environ.get("TRANSFORMERS_TESTS")
if FOLDER is None:
    pytest.skip("TRANSFORMERS_TESTS is not set", allow_module_level=True)
pytest.importorskip("parameterized")

PACKAGE = "transformers_tests"
ABSENT = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}


def load_mixins() -> list[type]:
    """ModelTesterMixin, and GenerationTesterMixin if it is there."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [FOLDER]
    sys.modules[PACKAGE] = package
    for name, mixin in ABSENT.items():
        if not (Path(FOLDER) / name.replace(".", "/")).with_suffix(".py").exists():
            folder, _, _ = name.partition(".")
            sys.modules[f"{PACKAGE}.{folder}"] = types.ModuleType(folder)
            stub = types.ModuleType(name)
            setattr(stub, mixin, type(mixin, (), {}))
            sys.modules[f"{PACKAGE}.{name}"] = stub
    common = importlib.import_module(f"{PACKAGE}.test_modeling_common")
    return [common.ModelTesterMixin, common.GenerationTesterMixin]


MIXINS = load_mixins()
STUDIES = [[Image.new("L", (80, 64), 40), Image.new("L", (64, 90), 200)], [Image.new("L", (70, 70), 128)]]
QUESTIONS = list(TEXTS[0:4:2])
ONE_STACK = "expects one stack of layers. tests/models/test_common.py tests our outputs"
SKIPPED = {
    "test_eager_matches_sdpa_inference": "calls the model with its main input alone, but a question needs images",
    "test_attention_outputs": ONE_STACK,
    "test_hidden_states_output": ONE_STACK,
    "test_retain_grad_hidden_states_attentions": ONE_STACK,
}
SKIPPED_SWIN_VED = {
    "test_generate_from_inputs_embeds": "prompts are token ids, in which [BOS] gives the answer's positions",
}
WITH_EMBEDS = "transformers passes input_ids to the assistant beside the embeddings that the encoder reads, and fails"
SKIPPED_BLIP2 = {
    "test_assisted_decoding": WITH_EMBEDS,
    "test_generate_continue_from_past_key_values": "transformers' own T5 fails it too: it caches all tokens twice",
    "test_batching_equivalence": "cuts every tensor by studies, but the images of all studies share one axis",
    "test_model_main_input_name": "main_input_name is pixel_values, as in BLIP-2, but forward begins with input_ids",
}


def skip_tests(case: type, reasons: dict[str, str]) -> None:
    """Skip the tests of `case` whose names begin with a key of `reasons`."""
    for name in dir(case):
        reason = next((reason for start, reason in reasons.items() if name.startswith(start)), None)
        if reason is not None:
            setattr(case, name, unittest.skip(reason)(getattr(case, name)))


class Tester:
    """What the mixins ask for a configuration and inputs.

    Args:
        config: of a tiny model.
        inputs: of two studies with a question each, as the processor makes them.
    """

    is_training = False
    batch_size = len(STUDIES)

    def __init__(self, config, inputs) -> None:
        self.config, self.inputs = config, dict(inputs)
        self.seq_length = self.inputs["input_ids"].shape[1]

    def prepare_config_and_inputs_for_common(self):
        return copy.deepcopy(self.config), {name: value.clone() for name, value in self.inputs.items()}


class TestSwinVed(*MIXINS, unittest.TestCase):
    all_model_classes = (SwinVedForConditionalGeneration,)

    def setUp(self) -> None:
        processor, _ = tiny_processor()
        model = tiny_model()
        model.resize_token_embeddings(len(processor.tokenizer))
        self.model_tester = Tester(model.config, processor(images=STUDIES, text=QUESTIONS))


class TestBlip2MultiView(*MIXINS, unittest.TestCase):
    all_model_classes = (Blip2MultiViewForConditionalGeneration,)

    def setUp(self) -> None:
        processor = Blip2MultiViewProcessor.tiny(TEXTS)
        inputs = processor(images=STUDIES, views=[["AP", "LL"], ["PA"]], text=QUESTIONS)
        model = make_model()
        embeds, _ = model.prepare_language_inputs(**inputs)
        inputs["decoder_input_ids"] = torch.tensor([[0, 5, 6], [0, 7, 8]])
        self.model_tester = Tester(model.config, inputs)
        self.model_tester.encoder_seq_length = embeds.shape[1]  # image features precede the question

    def prepare_config_and_inputs_for_generate(self, batch_size=2):
        """The mixin cuts every tensor by studies, but the images of all studies share one axis."""
        config, inputs = super().prepare_config_and_inputs_for_generate(batch_size)
        images = int(self.model_tester.inputs["num_images"][:batch_size].sum())
        shared = {name: self.model_tester.inputs[name][:images] for name in ("pixel_values", "image_view")}
        return config, inputs | shared


skip_tests(TestSwinVed, SKIPPED | SKIPPED_SWIN_VED)
skip_tests(TestBlip2MultiView, SKIPPED | SKIPPED_BLIP2)
