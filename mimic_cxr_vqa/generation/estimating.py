"""Estimate the remaining work: requests and tokens from a count, time from a probe (`cxr answer --dry-run`, `--probe`).

A probe answers the first open studies, keeps the answers and extrapolates. With fewer studies than the model has slots
some slots stay empty, so the estimate is too high. The output mentions this.
"""

from dataclasses import dataclass

from medvqa_core.llm.engines import Engine
from medvqa_core.progress import track
from medvqa_core.runs.predictions import ANSWERS, PredictionStore
from mimic_cxr_vqa.generation.answer_keys import answer_keys, iterate_keyed
from mimic_cxr_vqa.generation.answer_request import answer_from_settings, check_settings
from mimic_cxr_vqa.generation.language_model import LanguageModel
from mimic_cxr_vqa.workspace import Workspace

COUNTED = 200  # studies whose tokens are counted, to extrapolate from


@dataclass(frozen=True)
class RemainingWork:
    """The unanswered questions.

    Attributes:
        tokens: estimated prompt tokens. None for a server, whose tokenizer is not in this process.
        last_probed: how many studies (open or not) to go through so that the probe answers its number of open ones.
    """

    studies: int
    questions: int
    requests: int
    tokens: int | None
    last_probed: int


def estimate_remaining(
    workspace: Workspace, engine: Engine, answer_from: str, retry_failed: bool, probe: int = 0
) -> RemainingWork:
    """Count the questions without a record. Raises ConfigError, as `answer_questions`."""
    settings = check_settings(answer_from_settings(engine.settings, answer_from), f"engine {engine.name}")
    keys = answer_keys(workspace, settings, save=False)
    store = None
    if workspace.answers.exists():
        store = PredictionStore(workspace.answers, workspace.governance(), settings, read_only=True, kind=ANSWERS)
    model = engine if isinstance(engine, LanguageModel) else None
    size = (model.questions_per_request if model else 1) or 10**9
    count = getattr(model.model, "count_tokens", None) if model else None
    studies = questions = requests = tokens = counted = last_probed = 0
    every = max(1, workspace.studies_with_questions() // COUNTED)
    for place, study in enumerate(track(iterate_keyed(workspace, settings, keys), "Counting"), start=1):
        todo = [request for key, request in study.items() if store is None or store.is_open(key, retry_failed)]
        if not todo:
            continue
        studies, questions, requests = studies + 1, questions + len(todo), requests + -(-len(todo) // size)
        last_probed = place if studies <= probe else last_probed
        if model and count and studies % every == 1 % every:
            parts = [todo[first : first + size] for first in range(0, len(todo), size)]
            tokens, counted = tokens + sum(count(model.compose(part)) for part in parts), counted + len(parts)
    if store is not None:
        store.close()
    total = round(tokens / counted * requests) if counted else None
    return RemainingWork(studies, questions, requests, total, last_probed)


def format_remaining(rest: RemainingWork) -> str:
    """The counts in one line."""
    tokens = f"about {rest.tokens:,} prompt tokens" if rest.tokens is not None else "run --probe 50 for tokens"
    return (
        f"to ask: {rest.questions:,} questions about {rest.studies:,} studies in {rest.requests:,} requests; {tokens}"
    )


def format_time_estimate(engine: LanguageModel, before: RemainingWork, after: RemainingWork) -> list[str]:
    """The results of a probe, from the remaining work before and after it."""
    counts, asked = engine.counts, before.questions - after.questions
    if not asked or not counts.seconds:
        return ["The probe did not ask anything: all questions are answered."]
    hours = counts.seconds / asked * after.questions / 3600
    servers = engine.model.description.get("servers", 1)
    per_question = (counts.prompt + counts.completion) / asked
    lines = [
        f"probe: {asked:,} questions in {counts.seconds:.1f} s, {counts}",
        f"remaining: {after.questions:,} questions, {per_question * after.questions:,.0f} tokens, {hours:,.1f} hours; "
        f"{hours * servers:,.1f} GPU hours with one GPU {'per server' if engine.endpoint else 'here'}",
    ]
    slots = engine.in_flight // 4  # a model gets four studies per slot, so that no slot stays empty
    if before.studies - after.studies < slots:
        lines.append(f"The probe had fewer studies than the {slots} slots. The actual run will be faster.")
    return lines
