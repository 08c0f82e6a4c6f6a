"""The released BLIP-2-MultiView in few lines: a BLIP-2 with a Q-Former, queries and a projection for each view.

Images are encoded one by one, in a loop over the views of one study. The encoder of the language model reads
`[AP] block [PA] block [LAT] block [Q] Question: … Answer:`, whose four tokens are the last of its vocabulary. The block
of a missing view is multiplied by zero, and attention masks nothing. Tiny sizes.
"""

import copy

import numpy as np
import torch
from blip2_multiview_models import make_plain_blip2
from PIL import Image
from torch import nn
from transformers import PreTrainedTokenizerBase, T5Config

VIEWS = {"AP": ("AP",), "PA": ("PA",), "LAT": ("LAT", "LATERAL", "LL", "L")}
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
NEW_TOKENS, EOS = 128, 1


class ReleasedBlip2(nn.Module):
    """Modules under the release's names, in evaluation mode. `tokenizer` is without the four new tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text_config: T5Config, seed: int = 0) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        text_config = copy.deepcopy(text_config)
        self.first_token = text_config.vocab_size
        text_config.vocab_size += len(VIEWS) + 1
        plain = make_plain_blip2(seed, text_config=text_config)
        self.vision_model, self.language_model = plain.vision_model, plain.language_model
        self.qformer, self.query_tokens = plain.qformer, plain.query_tokens
        self.language_projection = plain.language_projection
        self.qformer_by_view = nn.ModuleDict({view: copy.deepcopy(plain.qformer) for view in VIEWS})
        self.language_projection_by_view = nn.ModuleDict(
            {view: copy.deepcopy(plain.language_projection) for view in VIEWS}
        )
        self.query_tokens_by_view = nn.ParameterDict(
            {view: nn.Parameter(torch.randn_like(plain.query_tokens)) for view in VIEWS}
        )
        self.eval()

    def block(self, view: str, images: list[torch.Tensor]) -> torch.Tensor:
        """(1, queries, width) of the study's images (3, H, W) of a view."""
        blank = torch.zeros(3, *[self.vision_model.config.image_size] * 2, dtype=self.query_tokens.dtype)
        states = [
            self.qformer_by_view[view](
                query_embeds=self.query_tokens_by_view[view],
                encoder_hidden_states=self.vision_model(pixel_values=image[None]).last_hidden_state,
            ).last_hidden_state
            for image in images or [blank]
        ]
        projected = self.language_projection_by_view[view](torch.stack(states).mean(0))
        return projected if images else projected * 0

    def prefix(self, images: list[torch.Tensor], views: list[str]) -> torch.Tensor:
        """(1, tokens, width) in front of the question, [Q] included."""
        table, parts = self.language_model.shared.weight, []
        for number, (view, names) in enumerate(VIEWS.items()):
            chosen = [image for image, name in zip(images, views, strict=True) if name in names]
            parts += [table[None, None, self.first_token + number], self.block(view, chosen)]
        return torch.cat([*parts, table[None, None, self.first_token + len(VIEWS)]], 1)

    def inputs(self, prefix: torch.Tensor, question: str) -> dict[str, torch.Tensor]:
        ids = self.tokenizer(f"Question: {question} Answer:", return_tensors="pt").input_ids
        embeds = torch.cat([prefix, self.language_model.shared(ids)], 1)
        return {"inputs_embeds": embeds, "attention_mask": torch.ones(embeds.shape[:2], dtype=torch.long)}

    def log_probabilities(self, prefix: torch.Tensor, question: str, ids: list[int]) -> torch.Tensor:
        """Log-probability (tokens,) of each token of an answer, [EOS] included."""
        labels = torch.tensor([ids])
        logits = self.language_model(**self.inputs(prefix, question), labels=labels).logits
        return logits[0].log_softmax(-1).gather(1, labels.T)[:, 0]

    @torch.no_grad()
    def answer(self, prefix: torch.Tensor, question: str, beams: int) -> list[int]:
        """Ids of an answer up to its [EOS], without a cache."""
        settings = {"num_beams": beams, "max_new_tokens": NEW_TOKENS, "do_sample": False, "use_cache": False}
        return cut(self.language_model.generate(**self.inputs(prefix, question), **settings)[0, 1:].tolist())


def cut(ids: list[int]) -> list[int]:
    """Ids up to the first [EOS]."""
    return ids[: ids.index(EOS)] if EOS in ids else ids


def released_pixels(image: Image.Image, size: int) -> torch.Tensor:
    """(3, size, size) as BLIP's image processor makes them: RGB, bicubic, CLIP's scale."""
    image = image.convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
    pixels = (np.asarray(image, np.float64) / 255 - CLIP_MEAN) / CLIP_STD
    return torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1)
