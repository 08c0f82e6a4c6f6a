"""The released SwinVED's own layout of labels, in few lines: what its weights learn, and what they answer.

`[CLS] question [PAD]… [BOS] answer [PAD]… [EOS]`, labels through the padding, -100 on the question only; texts as
wordpunct cuts them, in their case, looked up in a vocabulary file as the release's script writes it. Tiny sizes.
"""

import re
from pathlib import Path

import torch
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

    def __init__(self, tokens: list[str]) -> None:
        super().__init__()
        self.tokens, self.ids = tokens, {token: number for number, token in enumerate(tokens)}
        self.config = SwinVedConfig.tiny(vocab_size=len(tokens), answer_position=QUESTION)
        self.encoder = SwinModel(self.config.encoder, add_pooling_layer=False)
        self.decoder = BertGenerationDecoder(self.config.decoder)
        self.eval()

    def read(self, text: str) -> list[int]:
        return [self.ids.get(word, UNK) for word in re.findall(r"\w+|[^\w\s]+", text)]

    def prompt(self, question: str) -> list[int]:
        ids = [CLS, *self.read(question)][:QUESTION]
        return [*ids, *[PAD] * (QUESTION - len(ids)), BOS]

    def target(self, answer: str) -> list[int]:
        ids = self.read(answer)[: ANSWER - 1]
        return [*ids, *[PAD] * (ANSWER - 1 - len(ids)), EOS]

    def features(self, pixels: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        states = self.encoder(pixels.flatten(0, 1)).last_hidden_state
        states = states.view(*pixels.shape[:2], *states.shape[1:])
        return (states * present[:, :, None, None]).flatten(1, 2)

    def logits(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        mask = features.abs().sum(-1) != 0
        return self.decoder(ids, ids.ne(PAD).long(), encoder_hidden_states=features, encoder_attention_mask=mask).logits

    def learn(self, pairs: list[tuple[str, str]], features: torch.Tensor, steps: int, rate: float = 3e-3) -> float:
        """Train the decoder on (question, answer) pairs, each with its row of `features`; returns the last loss.

        Without dropout: a few steps shall do.
        """
        ids = torch.tensor([self.prompt(question) + self.target(answer) for question, answer in pairs])
        labels = ids[:, QUESTION + 1 :]
        optimizer = torch.optim.Adam(self.decoder.parameters(), rate)
        for _ in range(steps):
            logits = self.logits(ids[:, :-1], features)[:, QUESTION:]
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    @torch.no_grad()
    def answer(self, question: str, features: torch.Tensor) -> list[int]:
        """Greedy ids up to [PAD] or [EOS], of one question and its (1, places, width) features."""
        ids, written = self.prompt(question), []
        while len(written) < NEW_TOKENS:
            token = int(self.logits(torch.tensor([ids + written]), features)[0, -1].argmax())
            if token in (PAD, EOS):
                break
            written.append(token)
        return written

    @torch.no_grad()
    def answer_by_beams(self, question: str, features: torch.Tensor, beams: int = 2) -> list[int]:
        """Ids up to [PAD] or [EOS] by beam search in which every beam is decoded to the full length."""
        prompt, scored = self.prompt(question), [(0.0, [])]
        for _ in range(NEW_TOKENS):
            ids = torch.tensor([prompt + written for _, written in scored])
            log_probs = self.logits(ids, features.expand(len(scored), -1, -1))[:, -1].log_softmax(-1)
            scored = [
                (score + value, [*written, token])
                for (score, written), row in zip(scored, log_probs, strict=True)
                for value, token in zip(*(part.tolist() for part in row.topk(beams)), strict=True)
            ]
            scored = sorted(scored, key=lambda beam: -beam[0])[:beams]
        written = scored[0][1]
        ends = [place for place, token in enumerate(written) if token in (PAD, EOS)]
        return written[: ends[0]] if ends else written

    def text(self, ids: list[int]) -> str:
        return " ".join(self.tokens[token] for token in ids if token > EOS)


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
