"""The common tests of transformers' models, for both of ours."""

import torch
from blip2_multiview import Blip2MultiViewProcessor
from blip2_multiview_models import make_model
from model_common_tests import ModelCommonTests
from PIL import Image
from swin_ved_tiny import TEXTS, tiny_model, tiny_processor

STUDIES = [[Image.new("L", (80, 64), 40), Image.new("L", (64, 90), 200)], [Image.new("L", (70, 70), 128)]]
QUESTIONS, ANSWERS = list(TEXTS[0:4:2]), list(TEXTS[1:4:2])


class TestSwinVed(ModelCommonTests):
    attentions = ("attentions", "cross_attentions")

    def make(self):
        processor, config = tiny_processor()
        model = tiny_model()
        model.resize_token_embeddings(config.decoder.vocab_size)
        return model, processor

    def inputs(self, processor) -> dict[str, torch.Tensor]:
        return processor(images=STUDIES, text=QUESTIONS, answers=ANSWERS)

    def prompts(self, processor, inputs):
        return processor(images=STUDIES, text=QUESTIONS)


class TestBlip2MultiView(ModelCommonTests):
    attentions = ("decoder_attentions", "cross_attentions", "encoder_attentions")

    def make(self):
        return make_model(), Blip2MultiViewProcessor.tiny(TEXTS)

    def inputs(self, processor) -> dict[str, torch.Tensor]:
        return processor(images=STUDIES, views=[["AP", "LL"], ["PA"]], text=QUESTIONS, answers=ANSWERS)

    def prompts(self, processor, inputs):
        return {name: value for name, value in inputs.items() if name != "labels"}

    def test_images_without_views_are_of_the_default_view(self):
        processor = Blip2MultiViewProcessor.tiny(TEXTS)
        alone = processor(images=STUDIES, text=QUESTIONS)
        assert alone["image_view"].tolist() == [0, 0, 0]
        other = Blip2MultiViewProcessor.tiny(TEXTS, default_view="PA")
        assert other(images=STUDIES[1][0], text=QUESTIONS[0])["image_view"].tolist() == [1]
        assert other(images=STUDIES[0], text=QUESTIONS[0])["image_view"].tolist() == [1, 1]
