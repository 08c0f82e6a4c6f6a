"""A language model in this process: our batching against plain `generate`, one request at a time, on one GPU.

Two models with the sizes of real ones and random weights, made here (nothing is downloaded): a text model of 1.5
billion parameters (Qwen2's shape), run continuously and by length, and an image-text model (LLaVA's shape, with that
text model and a CLIP of 300 million). Replies have exactly 60 tokens. Prompts share
instructions of about 400 tokens and, by study, a report of 150, as `cxr answer` sends them.

Without CUDA it exits with code 0. `--tiny` runs everything with tiny models on a CPU.

Run: python benchmarks/llm_gpu.py
"""

import argparse
import asyncio
import io
import random
import time
from typing import Any

import torch
from timing import write_result

from medvqa_core.llm.chat import ChatRequest, Image, Message
from medvqa_core.llm.in_process import InProcessModel
from medvqa_core.llm.loading import LoadedModel

REQUESTS, ALONE, A_STUDY, TOKENS = 256, 8, 8, 60
TEMPLATE = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for p in m['content'] %}"
    "{% if p['type'] == 'image' %}<image>{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
WORDS = [f"w{n}" for n in range(5000)]


def make_tokenizer() -> Any:
    """A word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<unk>", "<pad>", "<end>", "<image>", *WORDS]
    made = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<pad>", unk_token="<unk>")
    wrapped.add_special_tokens({"additional_special_tokens": ["<image>"]})
    wrapped.chat_template, wrapped.padding_side = TEMPLATE, "left"
    return wrapped


def text_config(tiny: bool) -> Any:
    """Qwen2-1.5B's shape."""
    from transformers import Qwen2Config

    size = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12}
    if tiny:
        size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return Qwen2Config(vocab_size=151_936 if not tiny else 6000, num_key_value_heads=2, **size)


def make_models(tiny: bool, device: str) -> dict[str, LoadedModel]:
    """The text and the image-text model, on the device."""
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        Qwen2ForCausalLM,
    )

    torch.manual_seed(0)
    tokenizer, side = make_tokenizer(), 32 if tiny else 336
    patch = 8 if tiny else 14
    shape = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    if not tiny:
        shape = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    vision = CLIPVisionConfig(image_size=side, patch_size=patch, **shape)
    both = LlavaConfig(vision_config=vision, text_config=text_config(tiny), image_token_index=3)
    pictures = CLIPImageProcessorPil(size={"height": side, "width": side}, crop_size={"height": side, "width": side})
    processor = LlavaProcessor(
        pictures,
        tokenizer,
        patch_size=patch,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    )
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    made = {}
    with torch.device(device):
        for name, kind, config, reader in (
            ("text", Qwen2ForCausalLM, text_config(tiny), tokenizer),
            ("image-text", LlavaForConditionalGeneration, both, processor),
        ):
            model = kind(config).to(dtype).eval().requires_grad_(False)
            model.generation_config = type(model.generation_config)(pad_token_id=tokenizer.pad_token_id, use_cache=True)
            made[name] = LoadedModel(name, "random", model, reader, name != "text", (), None, True)
    return made


def draw_requests(images: bool) -> list[ChatRequest]:
    """Of studies of eight questions; one image each where the model takes them."""
    from PIL import Image as Pictures

    chance = random.Random(0)
    rules = " ".join(chance.choices(WORDS, k=400))
    requests = []
    for study in range(REQUESTS // A_STUDY):
        report = " ".join(chance.choices(WORDS, k=150))
        data = io.BytesIO()
        Pictures.new("RGB", (512, 512), (study, study, study)).save(data, "PNG")
        picture = (Image(data.getvalue(), "image/png"),) if images else ()
        for _ in range(A_STUDY):
            question = " ".join(chance.choices(WORDS, k=chance.randrange(8, 20)))
            said = Message("user", f" {report} {question}", picture)
            requests.append(ChatRequest((Message("system", rules), said), max_tokens=TOKENS))
    return requests


def together(loaded: LoadedModel, requests: list[ChatRequest], continuous: bool) -> float:
    """Seconds for all requests, eight studies' worth at once."""

    async def run() -> None:
        async with InProcessModel(loaded, slots=64, continuous=continuous) as model:
            await model.chat(requests[0])
            started.append(time.perf_counter())
            await asyncio.gather(*(model.chat(request) for request in requests))

    started: list[float] = []
    asyncio.run(run())
    return time.perf_counter() - started[0]


def alone(loaded: LoadedModel, requests: list[ChatRequest]) -> float:
    """Seconds a request, one after another."""

    async def run() -> float:
        async with InProcessModel(loaded, slots=1, continuous=False) as model:
            await model.chat(requests[0])
            started = time.perf_counter()
            for request in requests[:ALONE]:
                await model.chat(request)
            return (time.perf_counter() - started) / ALONE

    return asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="tiny models, on a CPU too: shows that it runs, no figures")
    tiny = parser.parse_args().tiny
    if not torch.cuda.is_available() and not tiny:
        print("No CUDA device found. Nothing was measured.")
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    figures: dict[str, Any] = {"device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    for name, loaded in make_models(tiny, device).items():
        requests = draw_requests(loaded.takes_images)
        one = alone(loaded, requests)
        ways = {"by length": False} | ({} if loaded.takes_images else {"continuous": True})
        figures[name] = {"parameters": sum(p.numel() for p in loaded.model.parameters())}
        figures[name]["one by one"] = {"tokens_per_second": TOKENS / one, "measured_on": ALONE}
        for way, continuous in ways.items():
            seconds = together(loaded, requests, continuous)
            rate = TOKENS * len(requests) / seconds
            figures[name][way] = {"tokens_per_second": rate, "ratio": rate * one / TOKENS}
            print(f"{name}, {way}: {rate:,.0f} tokens/s, {rate * one / TOKENS:.1f} times one by one")
    if not tiny:
        write_result("llm_gpu", figures)


if __name__ == "__main__":
    main()
