"""What is left to ask and what it takes: requests and tokens beforehand, time once some studies were answered.

`cxr answer --dry-run` asks nothing. `--probe 50` answers the first 50 studies that are open, which are kept, and says
how long the rest takes at that rate. A probe that has fewer studies than the model has slots keeps some of them empty:
then the rest goes quicker than said, and that is said too.
"""

from dataclasses import dataclass

from medvqa_core.progress import track
from medvqa_core.runs.predictions import ANSWERS, PredictionStore
from mimic_cxr_vqa.generation.answer_keys import answer_keys, hex_keys, iterate_requests
from mimic_cxr_vqa.generation.engines import IMPRESSION, Engine, answer_from_settings, check_settings
from mimic_cxr_vqa.generation.language_model import LanguageModel
from mimic_cxr_vqa.workspace import Workspace

COUNTED = 200  # studies whose tokens are counted; the others are taken to be like them


@dataclass(frozen=True)
class RemainingWork:
    """What is left to ask.

    Attributes:
        tokens: that will be read, where the model's tokenizer is in this process; None at a server.
        last_probed: place, among all studies with questions, after the last of the first open ones that a probe takes.
    """

    studies: int
    questions: int
    requests: int
    tokens: int | None
    last_probed: int


def estimate_remaining(
    workspace: Workspace, engine: Engine, answer_from: str, retry_failed: bool, probe: int = 0
) -> RemainingWork:
    """Go through the questions and count those without a record. Raises ConfigError, as `answer_questions`."""
    settings = check_settings(answer_from_settings(engine.settings, answer_from), f"engine {engine.name}")
    keys = answer_keys(workspace, settings, save=False)
    store = None
    if workspace.answers.exists():
        store = PredictionStore(workspace.answers, workspace.governance(), settings, read_only=True, kind=ANSWERS)
    model = engine if isinstance(engine, LanguageModel) else None
    size = (model.questions_per_request if model else 1) or 10**9
    count = getattr(model.model, "count_tokens", None) if model else None
    studies = questions = requests = tokens = counted = start = last_probed = 0
    every = max(1, workspace.studies_with_questions() // COUNTED)
    for place, study in enumerate(track(iterate_requests(workspace, settings.get(IMPRESSION)), "Counting"), start=1):
        found = hex_keys(keys, start, len(study))
        start += len(study)
        todo = [
            request for key, request in zip(found, study, strict=True) if not store or store.is_open(key, retry_failed)
        ]
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
    """The counts in a line."""
    read = f"about {rest.tokens:,} tokens to read" if rest.tokens is not None else "tokens are known after --probe 50"
    return f"to ask: {rest.questions:,} questions about {rest.studies:,} studies in {rest.requests:,} requests; {read}"


def format_time_estimate(engine: LanguageModel, probed: RemainingWork, rest: RemainingWork) -> list[str]:
    """Lines on a probe that answered what `probed` has and `rest` has not."""
    counts, asked = engine.counts, probed.questions - rest.questions
    if not asked or not counts.seconds:
        return ["the probe asked nothing; nothing is open"]
    hours = counts.seconds / asked * rest.questions / 3600
    servers = engine.model.description.get("servers", 1)
    per_question = (counts.prompt + counts.completion) / asked
    lines = [
        f"probe: {asked:,} questions in {counts.seconds:.1f} s, {counts}",
        f"the rest: {rest.questions:,} questions, {per_question * rest.questions:,.0f} tokens, {hours:,.1f} hours; "
        f"{hours * servers:,.1f} GPU hours with one GPU {'a server' if engine.endpoint else 'here'}",
    ]
    slots = engine.in_flight // 4  # a model takes four studies a slot, so that none stays empty
    if probed.studies - rest.studies < slots:
        lines.append(f"fewer studies were probed than the {slots} slots: the rest goes quicker than this")
    return lines
