"""Both datasets as tasks of inspect-ai, with our prompts and scores.

inspect eval harness/inspect_ai/tasks.py@mimic_cxr_vqa -T config=sample --model … --no-log-images
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, Content, ContentImage, ContentText, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

import mimic_cxr_vqa as _cxr  # noqa: F401 - registers the builder
import rjua_meddqa as _meddqa  # noqa: F401
from medvqa_hub.evaluation import harness_tasks as tasks

# A dataset's row as messages, and its row and reply as a record.
_KINDS: dict[str, tuple[Callable[[Any], list], Callable[[Any, Sequence], Mapping], Callable, tuple[str, ...]]] = {
    "cxr": (tasks.cxr_messages, tasks.cxr_record, tasks.cxr_measure, tasks.CXR_MEASURES),
    "meddqa": (tasks.meddqa_messages, tasks.meddqa_record, tasks.meddqa_measure, tasks.MEDDQA_MEASURES),
}


@task
def mimic_cxr_vqa(config: str = "qa", split: str = "test") -> Task:
    """MIMIC-CXR-VQA: the release in MIMIC_CXR_VQA_DIR, or the bundled sample (config=sample)."""
    rows = tasks.cxr_documents(datasets.load_dataset("mimic_cxr_vqa", config, split=split))
    return _make_task("cxr", rows, "qa_id", max_tokens=256)


@task
def rjua_meddqa(config: str | None = None, split: str = "test", data_dir: str | None = None) -> Task:
    """RJUA-MedDQA: the files in `data_dir`, or the bundled sample (config=sample)."""
    rows = tasks.number_rows(datasets.load_dataset("rjua_meddqa", config, split=split, data_dir=data_dir))
    return _make_task("meddqa", rows, "id", max_tokens=512)


def _make_task(kind: str, rows: Any, id_column: str, max_tokens: int) -> Task:
    texts = rows.select_columns([id_column, "question", "answer"])
    samples = [
        Sample(row["question"], id=row[id_column], target=row["answer"], metadata={"place": place})
        for place, row in enumerate(texts)
    ]
    return Task(
        MemoryDataset(samples),
        solver=[_show(kind, rows), generate()],
        scorer=_score_replies(kind, rows),
        config=GenerateConfig(temperature=0.0, max_tokens=max_tokens),
    )


@solver
def _show(kind: str, rows: Any) -> Solver:
    """Replace the question by our prompt with its images, which are only read now."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.messages = [_to_message(one) for one in _KINDS[kind][0](rows[state.metadata["place"]])]
        return state

    return solve


def _to_message(message: Mapping[str, Any]) -> ChatMessageSystem | ChatMessageUser:
    parts: list[Content] = []
    for part in message["content"]:
        if part["type"] == "text":
            parts.append(ContentText(text=part["text"]))
        else:
            png = io.BytesIO()
            part["url"].save(png, "PNG")
            data = base64.b64encode(png.getvalue()).decode("ascii")
            parts.append(ContentImage(image=f"data:image/png;base64,{data}"))
    return (ChatMessageSystem if message["role"] == "system" else ChatMessageUser)(content=parts)


@metric
def measures(kind: str) -> Metric:
    """Our measures over all replies."""
    _, _, measure, names = _KINDS[kind]

    def compute(scores: list[SampleScore]) -> dict[str, float | None]:
        records = [score.score.metadata["record"] for score in scores]
        return {name: measure(records, name) for name in names}

    return compute


def _score_replies(kind: str, rows: Any) -> Scorer:
    record_reply = _KINDS[kind][1]

    @scorer(metrics=[measures(kind)], name=kind)
    def records() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            reply = "" if state.output.error else state.output.completion
            record = next(iter(record_reply(rows[state.metadata["place"]], [reply]).values()))
            return Score(value=float(record["reply"] is not None), answer=record["reply"], metadata={"record": record})

        return score

    return records()
