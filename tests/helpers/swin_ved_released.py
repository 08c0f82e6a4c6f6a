"""The released SwinVED's own layout of labels, in few lines: what its weights learn, and what they answer.

`[CLS] question [PAD]… [BOS] answer [PAD]… [EOS]`, labels through the padding, -100 on the question only; texts as
wordpunct cuts them, in their case, looked up in a vocabulary file as the release's script writes it. Tiny sizes.
"""

import re
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from swin_ved import SwinVedConfig
from swin_ved.convert_swin_ved import SWIN_NAMES
from torch import nn
from transformers import BertGenerationDecoder, SwinModel

SPECIALS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
CLS, PAD, UNK, BOS, EOS = 0, 1, 3, 5, 6
QUESTION, ANSWER = 64, 24  # places of question and answer, [CLS] and [EOS] included
NEW_TOKENS = 63


def write_vocabulary(path: Path, texts: list[str], cased: bool) -> list[str]:
    """A vocabulary file, without [BOS] and [EOS]; returns what stands at each id once they are added."""
    words = sorted({word for text in texts for word in re.findall(_pattern(cased), text if cased else text.lower())})
    path.write_text("".join(f"{token}\n" for token in (*SPECIALS, *words)), encoding="utf-8")
    return [*SPECIALS, "[BOS]", "[EOS]", *words]


def _pattern(cased: bool) -> str:
    return r"[A-Za-z0-9]+|[^\w\s]+" if cased else r"[a-z0-9]+|[^\w\s]+"


class ReleasedSwinVed(nn.Module):
    """Encoder and decoder under the release's names; images (studies, images, 3, H, W), missing ones zero."""

    def __init__(self, tokens: list[str], config: SwinVedConfig | None = None, answer_places: int = ANSWER) -> None:
        super().__init__()
        self.tokens, self.ids = tokens, {token: number for number, token in enumerate(tokens)}
        self.config = config or SwinVedConfig.tiny(vocab_size=len(tokens), answer_position=QUESTION)
        self.answer_places = answer_places
        self.encoder = SwinModel(self.config.encoder, add_pooling_layer=False)
        self.decoder = BertGenerationDecoder(self.config.decoder)
        self.eval()

    def read(self, text: str) -> list[int]:
        return [self.ids.get(word, UNK) for word in re.findall(r"\w+|[^\w\s]+", text)]

    def prompt(self, question: str) -> list[int]:
        ids = [CLS, *self.read(question)][:QUESTION]
        return [*ids, *[PAD] * (QUESTION - len(ids)), BOS]

    def target(self, answer: str) -> list[int]:
        ids = self.read(answer)[: self.answer_places - 1]
        return [*ids, *[PAD] * (self.answer_places - 1 - len(ids)), EOS]

    def features(self, pixels: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        states = self.encoder(pixels.flatten(0, 1)).last_hidden_state
        states = states.view(*pixels.shape[:2], *states.shape[1:])
        return (states * present[:, :, None, None]).flatten(1, 2)

    def logits(self, ids: torch.Tensor, features: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        mask = ids.ne(PAD) if mask is None else mask
        seen = features.abs().sum(-1) != 0
        return self.decoder(ids, mask.long(), encoder_hidden_states=features, encoder_attention_mask=seen).logits

    def loss(self, pairs: list[tuple[str, str]], features: torch.Tensor) -> torch.Tensor:
        """Mean over all places behind [BOS], padding included, of (question, answer) pairs with their features."""
        ids = torch.tensor([self.prompt(question) + self.target(answer) for question, answer in pairs])
        logits = self.logits(ids[:, :-1], features)[:, QUESTION:]
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, QUESTION + 1 :].flatten())

    def log_probabilities(self, question: str, ids: list[int], features: torch.Tensor) -> torch.Tensor:
        """Log-probability (tokens,) of each of `ids` behind the question, about one study (1, places, width)."""
        sequence = torch.tensor([self.prompt(question) + ids])
        log_probs = self.logits(sequence[:, :-1], features)[0, QUESTION:].log_softmax(-1)
        return log_probs.gather(1, torch.tensor(ids)[:, None])[:, 0]

    def learn(self, pairs: list[tuple[str, str]], features: torch.Tensor, steps: int, rate: float = 3e-3) -> float:
        """Train the decoder on (question, answer) pairs, each with its row of `features`; returns the last loss.

        Without dropout: a few steps shall do.
        """
        optimizer = torch.optim.Adam(self.decoder.parameters(), rate)
        for _ in range(steps):
            loss = self.loss(pairs, features)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    @torch.no_grad()
    def decode(self, questions: list[str], features: torch.Tensor, beams: int = 1) -> list[list[int]]:
        """The best beams up to [PAD] or [EOS], about one study (1, places, width).

        No beam ends: each one is decoded to the full length, [PAD]s included, and nothing is cached. As in
        transformers' `generate`, the question's [PAD]s are masked and written ones are not.
        """
        prompts = torch.tensor([self.prompt(question) for question in questions])
        written = prompts.new_zeros(len(prompts), beams, 0)
        scores = torch.full((len(prompts), beams), -torch.inf, dtype=features.dtype)
        scores[:, 0] = 0
        for _ in range(NEW_TOKENS):
            if beams == 1 and (written == PAD).any(-1).all():
                break  # what greedy search writes behind its first [PAD] changes nothing
            ids = torch.cat([prompts.repeat_interleave(beams, 0), written.flatten(0, 1)], 1)
            mask = ids.ne(PAD)
            mask[:, prompts.shape[1] :] = True
            log_probs = self.logits(ids, features.expand(len(ids), -1, -1), mask)[:, -1].log_softmax(-1)
            totals = scores[..., None] + log_probs.view(len(prompts), beams, -1)
            scores, best = totals.flatten(1).topk(beams)
            parents, tokens = best // totals.shape[-1], best % totals.shape[-1]
            written = torch.cat([written.gather(1, parents[..., None].expand(written.shape)), tokens[..., None]], 2)
        return [cut(ids) for ids in written[:, 0].tolist()]

    def answer(self, question: str, features: torch.Tensor, beams: int = 1) -> list[int]:
        """`decode` for one question."""
        return self.decode([question], features, beams)[0]

    def text(self, ids: list[int]) -> str:
        return " ".join(self.tokens[token] for token in ids if token > EOS)


def cut(ids: list[int]) -> list[int]:
    """Ids up to the first [PAD] or [EOS]."""
    return ids[: next((place for place, token in enumerate(ids) if token in (PAD, EOS)), len(ids))]


def released_pixels(image: Image.Image, resize_size: int, image_size: int) -> torch.Tensor:
    """(3, H, W) by the release's steps for evaluation: RGB, shorter side to `resize_size`, centre, ImageNet's scale."""
    width, height = image.size
    if width <= height:
        size = (resize_size, int(resize_size * height / width))
    else:
        size = (int(resize_size * width / height), resize_size)
    image = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    left, top = (int(round((side - image_size) / 2.0)) for side in size)
    pixels = np.asarray(image, np.float32)[top : top + image_size, left : left + image_size] / np.float32(255)
    pixels = (pixels - np.array((0.485, 0.456, 0.406), np.float32)) / np.array((0.229, 0.224, 0.225), np.float32)
    return torch.from_numpy(pixels).permute(2, 0, 1)


def released_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights of `encoder.` and `decoder.` under the names of transformers 4, which the release saved them with."""
    renamed = {}
    for key, value in weights.items():
        if key.startswith("encoder."):
            for old, new in SWIN_NAMES:
                if new in key:
                    key = key.replace(new, old)
                    break
        renamed[key] = value.clone()
    return renamed
