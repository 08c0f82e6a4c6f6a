"""BERTScore (Zhang et al. 2020): greedy matching of token states, as the library bert-score computes it without idf.

Per pair: cosine of every prediction token with every reference token at one hidden layer; precision is the mean of the
best match of each prediction token, recall of each reference token. The tokenizer's first and last special tokens can
be matched but have weight 0. Rescaling is (x - b) / (1 - b) with the baseline b of random pairs.

For values of RoBERTa and GPT-2 as published with transformers 4, set `"add_prefix_space": true` in the folder's
tokenizer_config.json. transformers 5 ignores bert-score's request for that space.

A prediction without words has the raw score 0. A reference without words is scored as None.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.scores import Scores, check_pairs, mean
from medvqa_core.progress import track
from medvqa_core.text_encoder import TextEncoder

Triple = tuple[float, float, float]  # precision, recall, F1

PAPER_ENCODER, PAPER_LAYER = "distilbert-base-uncased", 5
PAPER_BASELINE: Triple = (0.6666034, 0.66660464, 0.66620487)  # published with bert-score for that encoder and layer
CHUNK = 4096  # pairs whose states are in memory at once


class BertScorer:
    """BERTScore with one encoder.

    Args:
        encoder: "minilm", a folder, or a Hub id.
        layer: hidden layer to match at; 0 is the embeddings.
        baseline: None (no rescaling), (precision, recall, F1) of random pairs, or a table as bert-score ships them
            (`LAYER,P,R,F`); `compute_baseline` makes one for an encoder that has none.
        device: device that runs the encoder. None takes the first GPU, or the CPU.
        text: normalisation of each text, such as `answer_text.spaced`; None: unchanged.

    Raises:
        ConfigError: the encoder cannot be loaded, lacks the layer, or the baseline is invalid.
    """

    def __init__(
        self,
        encoder: str | Path = PAPER_ENCODER,
        layer: int = PAPER_LAYER,
        baseline: Sequence[float] | str | Path | None = None,
        batch_size: int = 64,
        device: str | None = None,
        text: Callable[[str], str] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}. It must be at least 1")
        self.baseline = _as_baseline(baseline, layer)
        self.encoder = TextEncoder(encoder, layers=layer, device=device)
        self.layer = layer
        self.batch_size = batch_size
        self.text = text

    def score(self, predictions: Sequence[str], references: Sequence[str]) -> list[Triple | None]:
        """(precision, recall, F1) of each pair, None if the reference is empty. Raises InputError as `check_pairs`."""
        if not len(predictions) and not len(references):
            return []
        check_pairs(predictions, references)
        pairs = list(zip(self._read(predictions), self._read(references), strict=True))
        todo = sorted({pair for pair in pairs if pair[1].strip() and pair[0].strip()}, key=lambda p: (len(p[1]), p))
        scored: dict[tuple[str, str], Triple | None] = {}
        chunks = range(0, len(todo), CHUNK)
        for start in track(chunks, "BERTScore") if len(chunks) > 1 else chunks:
            chunk = todo[start : start + CHUNK]
            states = self._encode([text for pair in chunk for text in pair])
            for batch_start in range(0, len(chunk), self.batch_size):
                batch = chunk[batch_start : batch_start + self.batch_size]
                scored.update(zip(batch, _match(batch, states), strict=True))
        raw = [scored.get(pair, (0.0, 0.0, 0.0)) if pair[1].strip() else None for pair in pairs]
        return [triple and self._rescale(triple) for triple in raw]

    def _read(self, texts: Sequence[str]) -> list[str]:
        return list(texts) if self.text is None else [self.text(text) for text in texts]

    def _encode(self, texts: Sequence[str]) -> dict[str, tuple[Any, Any]]:
        """States of the distinct texts, in batches of similar length."""
        import torch

        todo = [text for text in dict.fromkeys(texts) if text.strip()]
        token_ids = self.encoder.tokenize(todo)
        order = sorted(range(len(todo)), key=lambda i: len(token_ids[i]))
        without_weight = (self.encoder.tokenizer.cls_token_id, self.encoder.tokenizer.sep_token_id)
        states = {}
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            hidden, _ = self.encoder.hidden_states([token_ids[i] for i in batch])
            hidden = torch.nn.functional.normalize(hidden.float(), dim=-1)
            for row, i in enumerate(batch):
                weights = torch.tensor([float(token not in without_weight) for token in token_ids[i]])
                # a copy: a view would keep the padding of its whole batch
                states[todo[i]] = (hidden[row, : len(token_ids[i])].clone(), weights.to(hidden.device))
        return states

    def _rescale(self, triple: Triple) -> Triple:
        if self.baseline is None:
            return triple
        precision, recall, f1 = ((value - b) / (1 - b) for value, b in zip(triple, self.baseline, strict=True))
        return precision, recall, f1


def _match(pairs: list[tuple[str, str]], states: dict[str, tuple[Any, Any]]) -> list[Triple | None]:
    """Raw scores of one batch of pairs (prediction, reference) by greedy matching."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def stack(texts: list[str]) -> tuple[Any, Any, Any]:
        vectors = pad_sequence([states[text][0] for text in texts], batch_first=True)
        weights = pad_sequence([states[text][1] for text in texts], batch_first=True)
        lengths = torch.tensor([len(states[text][1]) for text in texts], device=weights.device)
        absent = torch.arange(weights.shape[1], device=weights.device) >= lengths.unsqueeze(1)
        return vectors, weights, absent

    with torch.inference_mode(), torch.autocast(states[pairs[0][0]][0].device.type, enabled=False):
        predicted, predicted_weights, predicted_absent = stack([pair[0] for pair in pairs])
        referred, referred_weights, referred_absent = stack([pair[1] for pair in pairs])
        similarity = predicted @ referred.transpose(1, 2)  # (pairs, prediction tokens, reference tokens)
        # Clamp at 0: bert-score's maximum also covers zero padding, so no match in a padded batch is negative.
        similarity = similarity.clamp(min=0.0)
        best = similarity.masked_fill(referred_absent.unsqueeze(1), 0.0).amax(2)
        precision = (best * predicted_weights).sum(1) / predicted_weights.sum(1)
        best = similarity.masked_fill(predicted_absent.unsqueeze(2), 0.0).amax(1)
        recall = (best * referred_weights).sum(1) / referred_weights.sum(1)
        f1 = 2 * precision * recall / (precision + recall)
        triples = torch.stack([precision, recall, f1], dim=1)
        # Texts of zero-width characters are not empty but may lack tokens.
        triples[predicted_weights.sum(1) == 0] = 0.0
        f1_of_nothing = torch.isnan(triples[:, 2]) & (precision + recall == 0)
        triples[f1_of_nothing, 2] = 0.0
        without_words = (referred_weights.sum(1) == 0).tolist()
        return [None if no_words else tuple(row) for row, no_words in zip(triples.tolist(), without_words, strict=True)]


def bert_scores(
    predictions: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], scorer: BertScorer
) -> Scores:
    """`bertscore` (F1), `bertscore_precision`, `bertscore_recall`; with several references per row, each value is the
    maximum over them.

    Pairs with empty references are None and counted as unscorable. Raises InputError as `check_pairs`.
    """
    lists = check_pairs(predictions, references)
    repeated = [prediction for prediction, texts in zip(predictions, lists, strict=True) for _ in texts]
    triples = iter(scorer.score(repeated, [text for texts in lists for text in texts]))
    best: list[Triple | None] = []
    for texts in lists:
        of_row = [triple for triple in (next(triples) for _ in texts) if triple is not None]
        best.append(tuple(map(max, zip(*of_row, strict=True))) if of_row else None)
    names = ("bertscore_precision", "bertscore_recall", "bertscore")
    samples = {name: [triple and triple[i] for triple in best] for i, name in enumerate(names)}
    return Scores(
        {name: mean(values) for name, values in samples.items()}, samples, {"bertscore": sum(t is None for t in best)}
    )


def compute_baseline(sentences: Sequence[str], scorer: BertScorer, pairs: int = 10_000, seed: int = 0) -> Triple:
    """Mean raw (precision, recall, F1) of random pairs of different sentences: the baseline of the scorer's encoder.

    bert-score uses a million pairs of web sentences. Sentences of one field give a higher baseline.

    Raises:
        InputError: fewer than two different sentences.
    """
    if scorer.baseline is not None:
        raise ConfigError("a baseline is made of raw scores. Give a scorer with baseline=None")
    texts = sorted({sentence for sentence in sentences if sentence.strip()})
    if len(texts) < 2:
        raise InputError(f"{len(texts)} different sentences. A baseline needs at least 2, better thousands")
    draw = random.Random(seed)
    drawn = [draw.sample(texts, 2) for _ in range(pairs)]
    triples = scorer.score([first for first, _ in drawn], [second for _, second in drawn])
    return tuple(sum(values) / len(triples) for values in zip(*triples, strict=True))


def _as_baseline(baseline: Sequence[float] | str | Path | None, layer: int) -> Triple | None:
    if baseline is None:
        return None
    values = _read_baseline(Path(baseline), layer) if isinstance(baseline, str | Path) else tuple(baseline)
    if len(values) != 3 or not all(isinstance(v, int | float) and -1 <= v < 1 for v in values):
        raise ConfigError(f"baseline {values!r}: three numbers below 1 are needed, for precision, recall and F1")
    return values[0], values[1], values[2]


def _read_baseline(path: Path, layer: int) -> Triple:
    try:
        table = iterate_cells(path, ("LAYER", "P", "R", "F"))
        rows = {int(row["LAYER"]): (float(row["P"]), float(row["R"]), float(row["F"])) for _, row in table}
    except InputError as error:
        raise ConfigError(f"baseline {error}. Give three numbers or a table LAYER,P,R,F") from error
    except ValueError as error:
        raise ConfigError(f"baseline {path}: not a table with the columns LAYER,P,R,F ({error})") from error
    if layer not in rows:
        raise ConfigError(f"baseline {path}: no row for layer {layer}. It has {sorted(rows)}")
    return rows[layer]
