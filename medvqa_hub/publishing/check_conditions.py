"""Check that the generation settings do not hide memorised text from the memorisation check.

The check reads answers. Settings that shorten or suppress answers hide text that the weights still contain. A tokenizer
that ends answers early, or a model that was trained not to answer, is not detected. The card states the number of
answers.
"""

from collections.abc import Mapping
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object
from medvqa_hub.publishing.model_folder import ModelFolder

SETTINGS = "generation_config.json"
LEAST_TOKENS = 32  # enough for a phrase of 8 words
MOST_ENDS = 2  # [EOS] and [PAD]
_LIMITS = ("max_new_tokens", "max_tokens")  # of our checkpoints, of an engine
_HARMLESS = {
    "_from_model_config", "bos_token_id", "decoder_start_token_id", "do_sample", "early_stopping", "governance",
    "num_beams", "output_attentions", "output_hidden_states", "pad_token_id", "temperature", "top_k", "top_p",
    "transformers_version", "use_cache",
}  # fmt: skip


def _is_off(key: str, value: Any) -> bool:
    """Whether a setting has no effect."""
    return not value or (key.endswith("penalty") and value == 1)


def check_generation_settings(model: ModelFolder, generation: Mapping[str, Any]) -> None:
    """Raise if the answers of an evaluation could not show memorised text.

    Args:
        generation: generation settings of the evaluation.

    Raises:
        InputError: answers were limited to fewer than LEAST_TOKENS, or the generation settings in the folder of one
            of our models suppress text. Engines do not use those.
    """
    limits = [generation[name] for name in _LIMITS if generation.get(name) is not None]
    again = "run medvqa-hub evaluate cxr again, and push with its output"
    if any(limit < LEAST_TOKENS for limit in limits):
        raise InputError(
            f"the answers were limited to {min(limits)} tokens, which can hide memorised text. Expected at least "
            f"{LEAST_TOKENS}. Remove --max-new-tokens, {again}."
        )
    path = model.checkpoint.folder / SETTINGS
    if model.foreign or not path.exists():
        return
    settings = read_object(path, again)
    ends, most = settings.pop("eos_token_id", None), settings.pop("max_new_tokens", None)
    if settings.get("suppress_tokens") == [model.config.get("image_token_id")]:
        del settings["suppress_tokens"]  # a placeholder is not text
    held_back = sorted(key for key, value in settings.items() if key not in _HARMLESS and not _is_off(key, value))
    if most is not None and most < LEAST_TOKENS:
        held_back.append(f"max_new_tokens {most}")
    if isinstance(ends, list) and len(ends) > MOST_ENDS:
        held_back.append(f"{len(ends)} end-of-answer tokens")
    if held_back:
        raise InputError(
            f"{path} suppresses text ({', '.join(held_back)}), so memorised text may not appear in the answers. Remove "
            f"these settings, {again}."
        )
