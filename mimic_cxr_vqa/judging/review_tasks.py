"""Label Studio: write the items of a review sample as tasks, and read ratings from its JSON export.

Images are loaded from `/data/local-files/?d=images/...` (labelstud.io/guide/storage, local files). The review folder is
the document root.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_json
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.judging.review import COMMENT, ReviewItem

IMAGE_URL = "/data/local-files/?d="
_REMEDY = "Export the project from Label Studio as JSON"


def make_tasks(rater: str, items: Sequence[ReviewItem], governance: Governance) -> list[dict[str, Any]]:
    """The tasks of one rater."""
    return [
        {
            "data": {
                **asdict(item),
                "indication": item.indication or "not given",
                "images": [IMAGE_URL + path for path in item.images],
                "rater": rater,
                "governance": str(governance),
            }
        }
        for item in items
    ]


def labelling_config(with_images: bool) -> str:
    """The labelling interface for the project's settings."""
    blocks = []
    for dimension in DIMENSIONS.values():
        options = "".join(
            f"\n      <Choice value={quoteattr(category)} hint={quoteattr(dimension.meanings[category])}/>"
            for category in reversed(dimension.categories)
        )
        blocks.append(
            f'    <Header value={quoteattr(f"{dimension.title}: {dimension.asks}")} size="5"/>\n'
            f'    <Choices name="{dimension.name}" toName="answer" required="true" showInline="true">{options}\n'
            "    </Choices>"
        )
    images = '\n    <Image name="image" valueList="$images" zoom="true" zoomControl="true"/>' if with_images else ""
    return f"""<View style="display: flex">
  <View style="flex: 50%">{images}
    <Header value="Indication"/>
    <Text name="indication" value="$indication"/>
    <Header value="Findings"/>
    <Text name="findings" value="$findings"/>
  </View>
  <View style="flex: 50%">
    <Header value="Question"/>
    <Text name="question" value="$question"/>
    <Header value="Answer"/>
    <Text name="answer" value="$answer"/>
{chr(10).join(blocks)}
    <TextArea name="{COMMENT}" toName="answer" placeholder="comment"/>
  </View>
</View>
"""


def read_export(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place, cells by name) of each annotation of a "JSON" export that is not cancelled, as `read_sheet`.

    Raises:
        InputError: the file is not a list of tasks from `cxr review export`, or an annotation is damaged.
    """
    tasks = read_json(path, _REMEDY)
    if not isinstance(tasks, list):
        raise InputError(f"{path} is not a list of tasks. {_REMEDY}")
    for number, task in enumerate(tasks, start=1):
        place = f"{path}, task {number}"
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in ("item", "rater")):
            raise InputError(f"{place} lacks item and rater. Expected a task from `cxr review export`.")
        annotations = task.get("annotations") or []
        if not isinstance(annotations, list):
            raise InputError(f"{place}: the annotations are not a list. {_REMEDY}")
        for annotation in annotations:
            if not (isinstance(annotation, dict) and annotation.get("was_cancelled")):
                yield place, {"rater": data["rater"], "item": data["item"], **_choices(annotation, place)}


def _choices(annotation: Any, place: str) -> dict[str, str]:
    result = annotation.get("result") if isinstance(annotation, dict) else None
    if not isinstance(result, list) or not all(isinstance(entry, dict) for entry in result):
        raise InputError(f"{place}: the annotation lacks its result list. {_REMEDY}")
    cells: dict[str, Any] = {}
    for entry in result:
        name, value = entry.get("from_name"), entry.get("value")
        kind = "text" if name == COMMENT else "choices"
        if name not in DIMENSIONS and name != COMMENT:
            continue
        texts = value.get(kind) if isinstance(value, dict) else None
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise InputError(f"{place}: {name} is damaged. {_REMEDY}")
        if name in DIMENSIONS and len(texts) > 1:
            raise InputError(f"{place}: {name} has {len(texts)} choices. Expected one.")
        if name in cells and name in DIMENSIONS:
            raise InputError(f"{place}: {name} occurs twice in one annotation. Correct it in Label Studio.")
        cells[name] = " ".join([cells[name], *texts] if name in cells else texts)
    return cells
