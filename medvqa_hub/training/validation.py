"""Validation during training: mean loss per target token, and scores of greedy (or beam search) answers.

A study's images are encoded once for its loss and its answers. Batches are the same for any number of processes. Each
process takes its share, and sums are added over processes.
"""

from typing import Any

import torch
from accelerate.utils import broadcast_object_list, gather_object

from medvqa_core.errors import ConfigError
from medvqa_core.metrics.answer_text import spaced, words
from medvqa_core.metrics.bert_score import BertScorer
from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.cider import cider_scores
from medvqa_core.metrics.rouge import rouge_scores
from medvqa_hub.families.registry import image_inputs
from medvqa_hub.tracking import Sample
from medvqa_hub.training.batch_loading import load_batches
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.sharding import whole_weights
from medvqa_hub.training.study_batches import StudiesInOrder, StudyCollator
from medvqa_hub.training.study_questions import StudyQuestions


class Validation:
    """Validates a model by `selection`.

    Args:
        questions: of the validation split.
        processor: of the model.
        recipe: of the run. Its `selection` has the metrics, and the number of studies and questions.
        arguments: of the trainer.
        workers: processes that read images.
    """

    def __init__(
        self,
        questions: StudyQuestions,
        processor: Any,
        recipe: Recipe,
        arguments: Any,
        workers: int = 0,
    ) -> None:
        selection = recipe.selection
        self.questions, self.processor, self.selection = questions, processor, selection
        self.arguments, self.workers = arguments, workers
        self.batches = StudiesInOrder(
            questions,
            StudyCollator(processor, recipe.family, targets=recipe.training.targets),
            selection.studies_per_batch,
            selection.studies,
            selection.questions_per_study,
        )
        self.metrics = sorted({selection.metric, *selection.metrics} - {"loss"})
        self._first_answers: list[tuple[str, str]] = []  # of the first batch, with their references
        self._scorer: Any = None

    @torch.no_grad()
    def measure(self, model: Any, accelerator: Any) -> dict[str, float]:
        """`loss` and the recipe's metrics, the same on every process."""
        training = model.training
        model.eval()
        total, tokens, texts = 0.0, 0, []
        share = range(self.arguments.process_index, len(self.batches), self.arguments.world_size)
        with whole_weights(model):
            for batch in load_batches(self.batches, share, self.workers):
                number = batch.pop("number")
                loss, count, answers = self._measure_batch(model, accelerator, batch)
                total, tokens = total + loss, tokens + count
                texts.append((number, answers))
        model.train(training)
        sums = torch.tensor([[total, float(tokens)]], dtype=torch.float64, device=accelerator.device)
        sums = accelerator.gather(sums).sum(0)
        metrics = {"loss": (sums[0] / sums[1]).item()}
        if self.metrics:
            metrics |= self._score(texts)
        return metrics

    def read_samples(self, most: int = 4) -> list[Sample]:
        """The first question of the first studies, with their images and the answers of the last `measure`."""
        samples, place = [], 0
        for study in self.batches.batches[0][:most]:
            if place >= len(self._first_answers):
                break  # the recipe asks for no answers
            row = self.questions.read_row(study, self.questions.read_film)
            places = self.questions.places(study)
            answer, reference = self._first_answers[place]
            images = [image for image in row["images"] if image is not None]
            samples.append(Sample(images, row["questions"][int(places[0])]["question"], reference, answer))
            place += len(places[: self.batches.questions_per_study])
        return samples

    def _measure_batch(
        self, model: Any, accelerator: Any, batch: dict[str, Any]
    ) -> tuple[float, int, list[tuple[str, str]]]:
        rows = batch.pop("rows")
        batch = {name: value.to(accelerator.device) for name, value in batch.items()}
        images = {name: batch.pop(name) for name in image_inputs(batch)}
        with accelerator.autocast():
            encoded = model.encode(**images)
            one = torch.ones((), device=accelerator.device)  # so that the loss is a sum over tokens
            loss = model(**batch, encoder_outputs=encoded, num_items_in_batch=one).loss.item()
            count = int((batch["labels"] != -100).sum())
            if not self.metrics:
                return loss, count, []
            prompts = self.processor(text=[row["question"] for row in rows])
            prompts = {name: prompts[name].to(accelerator.device) for name in ("input_ids", "attention_mask")}
            sequences = model.generate(
                **prompts,
                study_index=batch["study_index"],
                encoder_outputs=encoded,
                num_beams=self.selection.beams,
                do_sample=False,
                max_new_tokens=self.selection.max_new_tokens,
                synced_gpus=False,  # each process has the whole weights
            )
        answers = self.processor.batch_decode(sequences, skip_special_tokens=True)
        return loss, count, [(answer, row["answer"]) for answer, row in zip(answers, rows, strict=True)]

    def _score(self, texts: list[tuple[int, list[tuple[str, str]]]]) -> dict[str, float]:
        """Scores of all processes' answers in the order of the batches, computed by the first process."""
        gathered = sorted(gather_object(texts), key=lambda item: item[0])
        pairs = [pair for _, batch in gathered for pair in batch]
        self._first_answers = gathered[0][1]
        scores: list[dict[str, float]] = [{}]
        if self.arguments.process_index == 0:
            scores = [self._score_pairs([answer for answer, _ in pairs], [reference for _, reference in pairs])]
        broadcast_object_list(scores)
        return scores[0]

    def _score_pairs(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        found: dict[str, float | None] = {}
        if any(name.startswith("bleu") for name in self.metrics):
            found |= bleu_scores(predictions, references, words).corpus
        if "rouge_l" in self.metrics:
            found |= rouge_scores(predictions, references, words).corpus
        if "cider" in self.metrics:
            found |= cider_scores(predictions, references, words).corpus
        if "bert_score" in self.metrics:
            found["bert_score"] = self._bert_score(predictions, references)
        known = {name: float(value) for name, value in found.items() if value is not None}
        missing = [name for name in self.metrics if name not in known]
        if missing:
            raise ConfigError(f"validation could not compute {', '.join(missing)}. Choose another selection.metric")
        return {name: known[name] for name in self.metrics}

    def _bert_score(self, predictions: list[str], references: list[str]) -> float | None:
        if self._scorer is None:
            selection = self.selection
            device = selection.bert_score_device or str(self.arguments.device)
            encoder, layer = selection.bert_score_encoder, selection.bert_score_layer
            self._scorer = BertScorer(encoder, layer, device=device, text=spaced)
        values = [score[2] for score in self._scorer.score(predictions, references) if score is not None]
        return sum(values) / len(values) if values else None
