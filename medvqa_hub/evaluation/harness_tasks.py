"""Both datasets as tasks of another harness (harness/lmms_eval), with our prompts and scores.

A document is a row of the dataset without decoded images. Prompts and pixels are those of `evaluate --engine`. Measures
are computed from all replies of a run by the code of `evaluate`, so that `evaluate --predictions` on the harness's log
gives the same figures. Error texts of a harness are failures.
"""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.metrics.meddqa_scores import TABLE_5, score_meddqa
from medvqa_core.runs.predictions import Prediction
from medvqa_hub.evaluation.answer_files import FAILED, is_failure
from medvqa_hub.evaluation.cxr.prompts import STYLES, StudyPrompt
from medvqa_hub.evaluation.cxr.scoring import score
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.evaluation.cxr.text_scores import TextScorer
from mimic_cxr_vqa.images import read_film
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.inference.page_images import ImageRule
from rjua_meddqa.inference.prompts import OUR_PROMPT
from rjua_meddqa.inference.replies import READER, read_recorded

CXR_TEXT_SCORES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider")
CXR_MEASURES = (*CXR_TEXT_SCORES, "finding_accuracy", "failed")
MEDDQA_MEASURES = (*(f"{column}_{name}" for column, name in TABLE_5), "failed")
OWN_MODEL = "MEDVQA_HUB_I_RUN_THIS_MODEL"  # 1: like --i-run-this-server
_CXR_ROW = ("qa_id", "category", "label_value", "question", "answer")

Message = dict[str, Any]


def cxr_documents(dataset: Any) -> Any:
    """MIMIC-CXR-VQA's rows, if the harness may send them to its model.

    Raises:
        GovernanceError: they are credentialed, and the user did not state that the model runs locally. A task cannot
            find out whether the harness uses a hosted model.
    """
    if get_dataset_governance(dataset) is Governance.CREDENTIALED and os.environ.get(OWN_MODEL) != "1":
        raise GovernanceError(
            "These rows are credentialed, and the harness may send them to a hosted model. If its model runs on your "
            f"own machine, set {OWN_MODEL}=1 in the environment."
        )
    return without_decoding(dataset, "images")


def without_decoding(dataset: Any, column: str) -> Any:
    """`dataset` with the images of `column` as paths, which are read on demand."""
    from datasets import Image as ImageFeature
    from datasets import List

    listed = isinstance(dataset.features[column], List)
    plain = ImageFeature(decode=False)
    return dataset.cast_column(column, List(plain) if listed else plain)


def number_rows(dataset: Any) -> Any:
    """RJUA-MedDQA's rows with the ids of `load_questions`."""
    return without_decoding(dataset, "image").map(
        lambda row, place: {"id": f"{row['img_path']}-{place + 1}"}, with_indices=True
    )


def cxr_images(doc: dict[str, Any]) -> list[Image.Image]:
    """The study's images as in `StudyPrompt`, in three channels."""
    sources = (image["bytes"] or Path(image["path"]) for image in doc["images"])
    return [read_film(source, StudyPrompt().side).convert("RGB") for source in sources]


def cxr_text(doc: dict[str, Any]) -> str:
    """The text below the images."""
    study = Study(doc["study_id"], doc["subject_id"], doc["split"], (), tuple(doc["views"]), ())
    return StudyPrompt().text(study, doc)


def cxr_messages(doc: dict[str, Any]) -> list[Message]:
    """System text, and the images before the question."""
    return _messages(STYLES["sentence"], cxr_images(doc), cxr_text(doc))


def cxr_record(doc: dict[str, Any], replies: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """A record of the reply, the same for every measure."""
    record = {
        **_parse_reply(doc["qa_id"], replies),
        "study_id": doc["study_id"],
        "row": {name: doc[name] for name in _CXR_ROW},
    }
    return dict.fromkeys(CXR_MEASURES, record)


def cxr_measure(records: Sequence[dict[str, Any]], name: str) -> float | None:
    """A measure of CXR_MEASURES over all records of a run.

    Raises:
        InputError: every reply failed.
    """
    if name == "failed":
        return float(sum(record["reply"] is None for record in records))
    row = {"label_conflict": None}
    study = Study("all", "all", "", (), (), tuple({**record["row"], **row} for record in records))
    found, _ = score([study], [[_prediction(record) for record in records]], TextScorer())
    return found["findings"]["accuracy"] if name == "finding_accuracy" else found["table_4"][name]


def meddqa_images(doc: dict[str, Any]) -> list[Image.Image]:
    """The page as in `ImageRule`."""
    encoded = ImageRule().encode(Path(doc["image"]["path"]))
    return [Image.open(io.BytesIO(encoded.data)).convert("RGB")]


def meddqa_text(doc: dict[str, Any]) -> str:
    """Instruction, context and question."""
    request = DocumentRequest(
        doc["id"], Path(doc["img_path"]), doc["question"], doc["task"], doc["answer_type"], doc.get("context") or ""
    )
    return OUR_PROMPT.user_text(request)


def meddqa_messages(doc: dict[str, Any]) -> list[Message]:
    """System text, and the page before the question."""
    return _messages(OUR_PROMPT.system, meddqa_images(doc), meddqa_text(doc))


def meddqa_record(doc: dict[str, Any], replies: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """A record of the reply, read like that of a server, the same for every measure."""
    names = ("answer", "task", "answer_type", "image_quality")
    reply = _parse_reply(doc["id"], replies)
    if reply["reply"] is not None:
        reply["reply"], _ = read_recorded(reply["reply"], doc["question"], doc["answer_type"])
    record = {**reply, "reader": READER, "row": {name: doc[name] for name in names}}
    return dict.fromkeys(MEDDQA_MEASURES, record)


def meddqa_measure(records: Sequence[dict[str, Any]], name: str) -> float | None:
    """A measure of MEDDQA_MEASURES over all records of a run, or None without questions."""
    if name == "failed":
        return float(sum(record["reply"] is None for record in records))
    answers, tasks, types = ([record["row"][key] for record in records] for key in ("answer", "task", "answer_type"))
    return score_meddqa([record["reply"] for record in records], answers, tasks, types).record["table_5"][name]


def _messages(system: str, images: Sequence[Image.Image], text: str) -> list[Message]:
    shown = [{"type": "image", "url": image} for image in images]
    return [
        {"role": "system", "content": [{"type": "text", "text": system}]},
        {"role": "user", "content": [*shown, {"type": "text", "text": text}]},
    ]


def _parse_reply(id: str, replies: Sequence[Any]) -> dict[str, Any]:
    """The id and the reply, which is None if the harness failed."""
    text = str(replies[0]).strip()
    return {"id": id, "reply": None if is_failure(text) else text}


def _prediction(record: dict[str, Any]) -> Prediction:
    return Prediction(record["id"], record["id"], record["reply"], None if record["reply"] is not None else FAILED)
