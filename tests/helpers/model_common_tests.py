"""What transformers tests of every model, for ours: its own common tests are not in the wheel.

A model's tests are a subclass in tests/models/test_common.py that says how a tiny model, its processor and its inputs
are made; a third model is one more subclass.
"""

import copy
from abc import ABC, abstractmethod
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel, pipeline

CHAT = "Is there evidence of edema?"


class ModelCommonTests(ABC):
    """Attributes:
    attentions: names of the outputs that hold attention weights.
    """

    attentions: tuple[str, ...]

    @abstractmethod
    def make(self) -> tuple[PreTrainedModel, Any]:
        """A tiny model in evaluation mode and its processor; the same at every call."""

    @abstractmethod
    def inputs(self, processor: Any) -> dict[str, torch.Tensor]:
        """Two studies with a question each, and the answers as labels."""

    @pytest.fixture
    def parts(self) -> tuple[PreTrainedModel, Any, dict[str, torch.Tensor]]:
        model, processor = self.make()
        return model, processor, dict(self.inputs(processor))

    @pytest.fixture
    def folder(self, parts, tmp_path):
        parts[0].save_pretrained(tmp_path)
        parts[1].save_pretrained(tmp_path)
        return tmp_path

    def test_what_is_saved_comes_back(self, parts, folder):
        model, _, inputs = parts
        loaded, report = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
        assert type(loaded) is type(model)
        assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
        again = AutoProcessor.from_pretrained(folder)
        assert {name: value.tolist() for name, value in self.inputs(again).items()} == {
            name: value.tolist() for name, value in inputs.items()
        }

    def test_new_weights_are_drawn_and_finite(self, parts):
        """A seed gives the same model twice, another seed another one; nothing stays as memory was found."""
        config = copy.deepcopy(parts[0].config)

        def build(seed: int) -> dict[str, torch.Tensor]:
            torch.manual_seed(seed)
            return type(parts[0])(config).state_dict()

        first, second, other = build(1), build(1), build(2)
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert all(torch.isfinite(weight).all() for weight in first.values() if weight.is_floating_point())
        drawn = [name for name, weight in first.items() if weight.ndim > 1 and weight.float().std() > 0]
        assert drawn and all(not torch.equal(first[name], other[name]) for name in drawn)

    def test_a_missing_weight_is_drawn_anew_and_the_others_are_left(self, parts, tmp_path):
        model = parts[0]
        weights = model.state_dict()
        tied = set(model.all_tied_weights_keys) | set(model.all_tied_weights_keys.values())
        left_out = next(name for name, weight in weights.items() if weight.ndim == 2 and name not in tied)
        model.save_pretrained(tmp_path, state_dict={n: w for n, w in weights.items() if n != left_out})
        loaded, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
        assert set(report["missing_keys"]) == {left_out}
        found = loaded.state_dict()
        assert torch.isfinite(found[left_out]).all() and found[left_out].float().std() > 0
        assert all(torch.equal(found[name], weight) for name, weight in weights.items() if name != left_out)

    def test_ties_hold_after_loading(self, parts, folder):
        model = parts[0]
        loaded = AutoModelForImageTextToText.from_pretrained(folder)
        for name, other in loaded.all_tied_weights_keys.items():
            assert loaded.get_parameter(name) is loaded.get_parameter(other), name

        def shared(of: PreTrainedModel) -> bool:
            return of.get_input_embeddings().weight is of.get_output_embeddings().weight

        assert shared(loaded) == shared(model)

    def test_every_trained_weight_takes_a_gradient(self, parts):
        model, _, inputs = parts
        model(**inputs).loss.backward()
        without = [name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
        assert not without
        assert any(weight.grad.abs().sum() > 0 for weight in model.parameters() if weight.grad is not None)
        assert all(weight.grad is None for weight in model.parameters() if not weight.requires_grad)

    def test_attention_weights_and_hidden_states_are_given(self, parts):
        model, _, inputs = parts
        model.set_attn_implementation("eager")
        outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
        for name in self.attentions:
            weights = outputs[name]
            assert weights and all(weight.ndim == 4 for weight in weights), name
            for weight in weights:  # rows of padding are anything
                sums = weight.sum(-1)
                assert ((sums - 1).abs() < 1e-4).any() and torch.isfinite(weight).all(), name
        plain = model(**inputs)
        assert not any(plain.get(name) for name in self.attentions)
        torch.testing.assert_close(plain.logits, outputs.logits, atol=1e-4, rtol=1e-4)

    def test_embeddings_grow_and_shrink_with_the_vocabulary(self, parts, tmp_path):
        model, _, inputs = parts
        size, before = model.get_input_embeddings().num_embeddings, model(**inputs).logits
        model.resize_token_embeddings(size + 5)
        logits = model(**inputs).logits
        assert logits.shape[-1] == size + 5
        torch.testing.assert_close(logits[..., :size], before, atol=1e-4, rtol=1e-4)
        model.save_pretrained(tmp_path)
        loaded = AutoModelForImageTextToText.from_pretrained(tmp_path)
        assert torch.equal(loaded(**inputs).logits, logits)
        model.resize_token_embeddings(size)
        torch.testing.assert_close(model(**inputs).logits, before, atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("by_config", [True, False])
    def test_a_tuple_is_given_where_no_dict_is_wanted(self, parts, by_config):
        model, _, inputs = parts
        expected = model(**inputs)
        model.config.return_dict = not by_config
        loss, logits, *_ = model(**inputs, **({} if by_config else {"return_dict": False}))
        assert torch.equal(loss, expected.loss) and torch.equal(logits, expected.logits)

    @pytest.mark.slow
    def test_a_compiled_model_gives_the_same(self, parts):
        """Traced, not translated: the backend `eager` takes no compiler and a second."""
        model, _, inputs = parts
        compiled = torch.compile(model, backend="eager")
        torch.testing.assert_close(compiled(**inputs).loss, model(**inputs).loss, atol=1e-4, rtol=1e-4)

    def test_answers_are_the_same_with_and_without_the_cache(self, parts):
        model, _, inputs = parts
        prompts = {name: value for name, value in self.prompts(parts[1], inputs).items()}
        settings = {"do_sample": False, "max_new_tokens": 6, "min_new_tokens": 6}
        assert torch.equal(
            model.generate(**prompts, **settings), model.generate(**prompts, **settings, use_cache=False)
        )

    @abstractmethod
    def prompts(self, processor: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The same without the answers, for `generate`."""

    def test_a_pipeline_takes_several_images_batches_and_chats(self, folder):
        answer = pipeline("image-text-to-text", model=str(folder), max_new_tokens=4)
        images = [Image.new("L", (80, 70), grey) for grey in (30, 220)]

        def text(found: Any) -> str:
            found = found[0] if isinstance(found, list) else found
            return found["generated_text"]

        one = text(answer(images=images, text=CHAT, return_full_text=False))
        chat = [{"role": "user", "content": [*({"type": "image", "image": image} for image in images)]}]
        chat[0]["content"].append({"type": "text", "text": CHAT})
        assert text(answer(text=chat, return_full_text=False)) == one
        both = answer(images=[[images[0]], images], text=["Any tubes?", CHAT], return_full_text=False)
        assert [len(both), text(both[1])] == [2, one]
        chats = answer(text=[chat, chat], return_full_text=False)
        assert [text(found) for found in chats] == [one, one]
        # Transformers prepares the inputs of a generator one by one and concatenates them.
        studies = [{"images": images[:1], "text": "Any tubes?"}, {"images": images, "text": CHAT}]
        batched = list(answer((dict(study) for study in studies), batch_size=2, return_full_text=False))
        assert [text(found) for found in batched] == [text(found) for found in both]
        system = [{"role": "system", "content": "You are a radiologist."}, *chat]
        with pytest.raises(Exception, match="one message"):
            answer(text=system)
