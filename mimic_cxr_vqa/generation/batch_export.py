"""Export the unanswered questions as batch files, for machines that are not reachable as a server.

`<out>/batches/requests.jsonl` is the index from each request to its questions and their content keys. An export also
contains the questions that `retries` asks again, so alternating export and import ends with the answers of a server.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.files import atomic_folder, output_errors
from medvqa_core.json_files import write_manifest
from medvqa_core.llm.batch_files import write_batches
from medvqa_core.llm.chat import ChatRequest
from medvqa_core.progress import track
from medvqa_core.runs.predictions import ANSWERS, PredictionStore
from medvqa_core.store import RecordStore, content_key
from mimic_cxr_vqa.generation.answer_keys import answer_keys, iterate_keyed, read_lint
from mimic_cxr_vqa.generation.answer_request import AnswerRequest, check_settings
from mimic_cxr_vqa.generation.language_model import answer_settings, compose
from mimic_cxr_vqa.generation.prompts import Prompt
from mimic_cxr_vqa.generation.retries import make_retry
from mimic_cxr_vqa.workspace import Workspace

KIND = "batch"
REVISION = "batch files, schema asked for"  # the machine that answers is unknown
REQUESTS = "batch requests"  # kind of store
AT_ONCE = 256  # requests or results between two syncs
_WARNING = """\
These files hold credentialed text (PhysioNet Credentialed Health Data Use Agreement 1.5.0).
They may be answered on machines of your own, or where nothing is kept and no third party sees them; they are not for
hosted services without such terms. Delete them when their results are imported.
"""


@dataclass(frozen=True)
class BatchOptions:
    """How questions are written to batch files.

    Attributes:
        model: name of the model on the machine that answers.
        questions_per_request: a number, or 0 for all questions of a study.
        requests_per_file: hosted services accept 50,000.
    """

    model: str
    prompt: Prompt = Prompt()
    questions_per_request: int = 1
    requests_per_file: int = 50_000

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the answers depend on, for the rows' provenance."""
        return answer_settings(KIND, self.model, REVISION, self.prompt, self.questions_per_request)


def export_batch(workspace: Workspace, folder: Path, options: BatchOptions, limit: int | None = None) -> Counter:
    """Write the unanswered questions to `folder` as batch files.

    Args:
        limit: only the first `limit` studies with unanswered questions.

    Returns:
        The number of `requests`, `questions` and `files`.

    Raises:
        ConfigError: the existing answers are from another engine or other settings.
        OutputError: the folder has other contents or cannot be written.
    """
    governance = workspace.governance()
    settings = check_settings(options.settings, f"engine {KIND}")
    counts = Counter(requests=0, questions=0, files=0)
    with ExitStack() as stack:
        store = stack.enter_context(PredictionStore(workspace.answers, governance, settings, kind=ANSWERS))
        index = stack.enter_context(RecordStore(index_path(workspace), REQUESTS, governance, settings))
        out = stack.enter_context(atomic_folder(folder, KIND, governance.private))

        def index_requests() -> Iterator[tuple[str, ChatRequest]]:
            pending: list[dict[str, Any]] = []
            for group, attempt in _iterate_open(workspace, store, options, limit):
                custom_id = content_key(keys=[key for key, _ in group], attempt=attempt)
                counts.update(requests=1, questions=len(group))
                if custom_id not in index:
                    questions = [[key, request.qa_id, request.question] for key, request in group]
                    pending.append({"key": custom_id, "attempt": attempt, "asked": questions})
                if len(pending) >= AT_ONCE:
                    index.append(pending)
                    pending.clear()
                yield custom_id, compose(options.prompt, [request for _, request in group])
            index.append(pending)  # before the folder appears, which cannot be imported without it

        counts["files"] = write_batches(
            out, index_requests(), options.model, governance.private, options.requests_per_file
        )
        if governance.private:
            with output_errors(out):
                (out / "CREDENTIALED.txt").write_text(_WARNING, encoding="utf-8")
        write_manifest(out, {"kind": KIND, "governance": str(governance), "settings": settings, "counts": dict(counts)})
    return counts


def _iterate_open(
    workspace: Workspace, store: PredictionStore, options: BatchOptions, limit: int | None
) -> Iterator[tuple[list[tuple[str, AnswerRequest]], int]]:
    """Yield the (key, request) pairs of each chat request, and its attempt number.

    New questions are grouped by `questions_per_request`. A question that is asked again is alone in its request.
    """
    studies, keyed = 0, iterate_keyed(workspace, store.settings, answer_keys(workspace, store.settings))
    for by_key in track(keyed, "Exporting", total=workspace.studies_with_questions()):
        new, again = [], []
        for key, request in by_key.items():
            found = store.find(key)
            if found is None:
                new.append((key, request))
            elif asked := make_retry(request, found.error, read_lint(found, store), found.details["attempts"]):
                again.append(([(key, asked)], asked.attempt))
        size = options.questions_per_request or max(1, len(new))
        yield from ((new[first : first + size], 1) for first in range(0, len(new), size))
        yield from again
        studies += bool(new or again)
        if studies == limit:
            return


def index_path(workspace: Workspace) -> Path:
    """The index from each exported request to its questions."""
    return workspace.root / "batches" / "requests.jsonl"
