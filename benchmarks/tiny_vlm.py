"""A tiny image-text model with random weights, to try `train vlm` without a download: the parts of a LLaVA, small.

    python benchmarks/tiny_vlm.py --data out/cxr --out out/tiny_vlm

A CLIP encoder, a Qwen2 decoder, a byte-level BPE tokenizer of a release's training questions and answers, and a chat
template that marks the assistant's turns. It knows nothing: that it learns shows that training works, and says nothing
of any real model.
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medvqa_core.governance import Governance

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% if message.role == 'assistant' %}"
    "{% generation %}{% for part in message.content %}{{ part.text }}{% endfor %}<|end|>{% endgeneration %}"
    "{% elif message.content is string %}{{ message.content }}<|end|>"
    "{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PAD, END, IMAGE = "<pad>", "<|end|>", "<image>"
SPECIAL = (PAD, END, IMAGE, "<|system|>", "<|user|>", "<|assistant|>")


def write_tiny_vlm(
    folder: Path,
    texts: Iterable[str],
    governance: Governance,
    seed: int = 0,
    side: int = 64,
    patch: int = 16,
    width: int = 64,
    layers: int = 2,
    vocabulary: int = 500,
    decoder: Mapping[str, Any] | None = None,
    encoder: Mapping[str, Any] | None = None,
    dtype: str = "float32",
) -> Path:
    """Model, processor and class in `folder`.

    Args:
        texts: what the tokenizer is trained on.
        governance: class of those texts.
        side, patch: pixels of an image's and a patch's side.
        width, layers: of the encoder and of the decoder.
        decoder, encoder: what their configurations say otherwise, for a model that is not tiny.
        dtype: of the weights.
    """
    import torch
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        Qwen2Config,
    )

    from medvqa_core.folder_class import write_governance

    torch.manual_seed(seed)
    tokenizer = _train_tokenizer(texts, vocabulary)
    heads = {
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "hidden_size": width,
        "intermediate_size": 2 * width,
    }
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**{**heads, "image_size": side, "patch_size": patch, **(encoder or {})}),
        text_config=Qwen2Config(
            **{
                **heads,
                "num_key_value_heads": 4,
                "vocab_size": len(tokenizer),
                "max_position_embeddings": 4096,
                "pad_token_id": tokenizer.pad_token_id,
                "eos_token_id": tokenizer.eos_token_id,
                "bos_token_id": None,
                **(decoder or {}),
            }
        ),
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        vision_feature_layer=-1,
        governance=str(governance),
    )
    LlavaForConditionalGeneration(config).to(getattr(torch, dtype)).save_pretrained(folder)
    square = {"height": side, "width": side}
    LlavaProcessor(
        CLIPImageProcessorPil(size=square, crop_size=square, image_mean=[0.5] * 3, image_std=[0.25] * 3),
        tokenizer,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,  # CLIP's class token, which "default" takes away again
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    write_governance(folder, governance)
    return folder


def _train_tokenizer(texts: Iterable[str], vocabulary: int):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIAL), initial_alphabet=alphabet)
    made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=END, additional_special_tokens=[IMAGE], chat_template=TEMPLATE
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a release. Its questions and answers are read")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    from medvqa_hub.training.recipes import DataSettings
    from medvqa_hub.training.training_data import load_data

    data = load_data(args.data, None, DataSettings(validation_split=None), images=False)
    print(write_tiny_vlm(args.out, data.texts(), data.governance, args.seed))


if __name__ == "__main__":
    main()
