"""Whether the memorisation check could hear the model: answers that were cut, or kept from it, show no memory.

The check reads answers. A limit of a few tokens, or generation settings that keep words back, change the answers and
not the weights, and whoever gets the weights may change the settings. So the check is made of answers that could be
long, by settings that hold nothing back. Not seen: an end-of-answer token that the tokenizer was made to write early,
a model that was trained to be silent on the dataset's questions. The card says how many answers were read.
"""

from collections.abc import Mapping
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object
from medvqa_hub.publishing.model_folder import ModelFolder

SETTINGS = "generation_config.json"
LEAST_TOKENS = 32  # room for more than a phrase of 8 words
MOST_ENDS = 2  # tokens that end an answer: [EOS] and [PAD]
_LIMITS = ("max_new_tokens", "max_tokens")  # of a checkpoint of ours, of an engine
_HARMLESS = {  # they hold nothing back
    "_from_model_config", "bos_token_id", "decoder_start_token_id", "do_sample", "early_stopping", "num_beams",
    "output_attentions", "output_hidden_states", "pad_token_id", "temperature", "top_k", "top_p",
    "transformers_version", "use_cache",
}  # fmt: skip


def _is_off(key: str, value: Any) -> bool:
    """Whether a setting has the value that does nothing."""
    return not value or (key.endswith("penalty") and value == 1)


def check_generation_settings(model: ModelFolder, generation: Mapping[str, Any]) -> None:
    """Raise where the answers of an evaluation could not show what a model remembers.

    Args:
        generation: how the evaluation says that they were written.

    Raises:
        InputError: they were cut below LEAST_TOKENS; or the folder's generation settings, which a model of ours
            answers by, hold something back (an engine leaves them out).
    """
    limits = [generation[name] for name in _LIMITS if generation.get(name) is not None]
    again = "run medvqa-hub evaluate cxr again, and push with its output"
    if any(limit < LEAST_TOKENS for limit in limits):
        raise InputError(
            f"the answers were cut at {min(limits)} tokens, and cannot show what the model remembers: leave "
            f"--max-new-tokens out (at least {LEAST_TOKENS}), {again}"
        )
    path = model.checkpoint.folder / SETTINGS
    if model.foreign or not path.exists():
        return
    settings = read_object(path, again)
    ends, most = settings.pop("eos_token_id", None), settings.pop("max_new_tokens", None)
    held_back = sorted(key for key, value in settings.items() if key not in _HARMLESS and not _is_off(key, value))
    if most is not None and most < LEAST_TOKENS:
        held_back.append(f"max_new_tokens {most}")
    if isinstance(ends, list) and len(ends) > MOST_ENDS:
        held_back.append(f"{len(ends)} tokens that end an answer")
    if held_back:
        raise InputError(
            f"{path} keeps the model from answering freely ({', '.join(held_back)}), and the memorisation check would "
            f"measure that: take it out there, {again}"
        )
