"""Language models with random weights that real `transformers` code loads: a text model and an image-text model.

Their answers are nonsense; what they are for is the way there and back: tokenizer, chat template, processor, cache.
"""

from pathlib import Path

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ("<|end|>", "<pad>", "<image>", "<|system|>", "<|user|>", "<|assistant|>")
WORDS = "is there edema? no edema is seen in the lungs. the heart is enlarged. question answer indication findings "


def _tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator([WORDS] * 4, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", pad_token="<pad>")
    wrapped.add_special_tokens({"additional_special_tokens": ["<image>"]})
    wrapped.chat_template = TEMPLATE
    return wrapped


def _text_config(tokenizer):
    from transformers import Qwen2Config

    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        initializer_range=0.5,  # logits far apart: which one is highest does not hang on rounding
    )


def _save(model, tokenizer, folder):
    """Every 25th token ends a reply: left to chance, random weights hardly ever come to their end."""
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(10, len(tokenizer), 25)]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)


def write_text_model(folder: Path, seed: int = 0) -> Path:
    """A Qwen2 of 50,000 parameters with tokenizer and chat template in `folder`."""
    import torch
    from transformers import Qwen2ForCausalLM

    torch.manual_seed(seed)
    tokenizer = _tokenizer()
    _save(Qwen2ForCausalLM(_text_config(tokenizer)), tokenizer, folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_image_text_model(folder: Path, seed: int = 0) -> Path:
    """A LLaVA of a tiny CLIP and that Qwen2, with its processor (PIL backend), in `folder`."""
    import torch
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(seed)
    tokenizer = _tokenizer()
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=_text_config(tokenizer),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    _save(LlavaForConditionalGeneration(config), tokenizer, folder)
    images = CLIPImageProcessorPil(size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32})
    LlavaProcessor(
        images,
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    ).save_pretrained(folder)
    return folder
