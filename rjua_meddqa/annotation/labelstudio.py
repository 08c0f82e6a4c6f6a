"""Label Studio: exports pages as tasks with boxes and drafts, and imports corrected annotations.

A task is one image. People correct the boxes with their text, `key_values` and `table` (one line of text per pair or
row, fields separated by ` | `), and the choices report_type, image_type and image_quality. Label Studio measures boxes
in percent of the original image from the top left corner, rotated clockwise around it (labelstud.io/guide/task_format,
labelstud.io/tags/rectanglelabels).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any
from xml.sax.saxutils import quoteattr

from medvqa_core.errors import InputError, quote_value
from medvqa_core.governance import Governance, parse
from medvqa_core.store import content_key
from rjua_meddqa.schema import IMAGE_QUALITIES, IMAGE_TYPES, IS_NORMAL_VALUES, Annotation, Box, Page, TableRow

MODEL_VERSION = "medvqa-hub-draft-1"
IMAGE, BOXES, TEXT = "image", "boxes", "text"
KEY_VALUES, TABLE = "key_values", "table"
CHOICES = ("report_type", "image_type", "image_quality")
HISTORY = "history"  # earlier edits, in a task's data
SEPARATOR = " | "
REPORT_TYPES = ("Laboratory", "Pathology", "MRI", "CT", "Ultrasound", "Endoscopy", "X-ray", "Clinical")
BOX_LABEL = "Text"


@dataclass(frozen=True, slots=True)
class Imported:
    """Annotations made by people, and the tasks without one, each with the reason.

    Attributes:
        made: author and time of each annotation.
        histories: (author, time, change) of the earlier edits of images.
    """

    annotations: tuple[Annotation, ...]
    made: tuple[tuple[str, str], ...]
    histories: dict[str, list[tuple[str, str, dict[str, Any]]]]
    skipped: tuple[str, ...]
    governance: Governance


def make_task(
    page: Page,
    annotation: Annotation,
    image_url: str,
    governance: Governance,
    history: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the task of a page, with boxes on the original image and `annotation` as prediction.

    Args:
        image_url: URL from which Label Studio loads the image, such as /data/local-files/?d=images/1.png.
        history: earlier edits (author, time, change), which Label Studio keeps in the task's data.
    """
    size = (page.width, page.height)
    result = [entry for box in page.original_boxes for entry in _box_entries(box, size)]
    pairs = [_join((key, value)) for key, value in annotation.key_values]
    rows = [_join((row.item, row.result, row.range, row.is_normal)) for row in annotation.table]
    for name, lines in ((KEY_VALUES, pairs), (TABLE, rows)):
        if lines:
            result.append(_page_entry(name, "textarea", {"text": lines}))
    result += [_page_entry(name, "choices", {"choices": [getattr(annotation, name)]}) for name in CHOICES]
    scores = [box.score for box in page.original_boxes]
    prediction: dict[str, Any] = {"model_version": MODEL_VERSION, "result": result}
    if scores:
        prediction["score"] = round(sum(scores) / len(scores), 4)
    data = {
        IMAGE: image_url,
        "idx": annotation.idx,
        "img_path": annotation.img_path,
        "extra": annotation.extra,
        "governance": str(governance),
        **({HISTORY: list(history)} if history else {}),
    }
    return {"data": data, "predictions": [prediction]}


def parse_annotations(tasks: object, where: str) -> Imported:
    """Read the annotations of an export ("JSON", not "JSON-MIN").

    Of several annotations of a task, the one changed last counts. Cancelled ones are ignored. Tasks without an
    annotation are skipped and reported.

    Raises:
        InputError: `tasks` is not a list of Label Studio tasks, or an annotation is damaged.
    """
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{where}: not a list of tasks. Export the project from Label Studio as JSON")
    annotations, made, histories, skipped, classes = [], [], {}, [], []
    for number, task in enumerate(tasks, start=1):
        place = f"{where}, task {task.get('id', number)}"
        data = task.get("data")
        if not isinstance(data, dict) or not isinstance(data.get("img_path"), str):
            raise InputError(f"{place}: no img_path. Only tasks of `meddqa labelstudio-export` can be read")
        classes.append(parse(data.get("governance", Governance.SHARE_ALIKE.value), place))
        try:
            histories[data["img_path"]] = _history(data)
            chosen = _find_annotation(task)
            if chosen is None:
                skipped.append(f"{place} ({data['img_path']}): not annotated")
                continue
            annotations.append(_annotation(data, chosen["result"], place))
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(f"{place}: damaged ({error!r}). Export the project again as JSON") from None
        made.append((_author(chosen), _time(chosen)))
    governance = max(classes, key=lambda c: c.level, default=Governance.OPEN)
    return Imported(tuple(annotations), tuple(made), histories, tuple(skipped), governance)


def labelling_config(report_types: Iterable[str] = ()) -> str:
    """Return the labelling interface of these tasks, to be pasted into the project's settings.

    Args:
        report_types: types of the tasks. Those that are not among REPORT_TYPES become choices as well.
    """
    kinds = (*REPORT_TYPES, *sorted({kind for kind in report_types if kind} - set(REPORT_TYPES)))
    choices = {"report_type": kinds, "image_type": IMAGE_TYPES, "image_quality": IMAGE_QUALITIES}
    blocks = []
    for name, values in choices.items():
        options = "".join(f"\n      <Choice value={quoteattr(value)}/>" for value in values)
        blocks.append(
            f'    <Choices name="{name}" toName="{IMAGE}" showInline="true" required="true">{options}\n    </Choices>'
        )
    return f"""<View style="display: flex">
  <View style="flex: 60%">
    <Image name="{IMAGE}" value="${IMAGE}" zoom="true" zoomControl="true"/>
    <RectangleLabels name="{BOXES}" toName="{IMAGE}" canRotate="true">
      <Label value="{BOX_LABEL}" background="#1f77b4"/>
    </RectangleLabels>
    <TextArea name="{TEXT}" toName="{IMAGE}" perRegion="true" editable="true"
      maxSubmissions="1" displayMode="region-list"/>
  </View>
  <View style="flex: 40%">
    <Header value="key | value, one pair each; 无 where nothing is printed"/>
    <TextArea name="{KEY_VALUES}" toName="{IMAGE}" editable="true" rows="3"/>
    <Header value="item | result | range | is_normal ({" ".join(IS_NORMAL_VALUES)})"/>
    <TextArea name="{TABLE}" toName="{IMAGE}" editable="true" rows="2"/>
{chr(10).join(blocks)}
  </View>
</View>
"""


def _box_entries(box: Box, size: tuple[int, int]) -> list[dict[str, Any]]:
    """The rectangle of a box and its text, with a common id."""
    region = content_key(points=box.points, text=box.text)[:10]
    (x0, y0), (x1, y1), _, (x3, y3) = box.points
    value = {
        "x": 100 * x0 / size[0],
        "y": 100 * y0 / size[1],
        "width": 100 * math.dist((x0, y0), (x1, y1)) / size[0],
        "height": 100 * math.dist((x0, y0), (x3, y3)) / size[1],
        "rotation": math.degrees(math.atan2(y1 - y0, x1 - x0)) % 360,
    }
    shared = {
        "id": region,
        "to_name": IMAGE,
        "original_width": size[0],
        "original_height": size[1],
        "image_rotation": 0,
    }
    rectangle = {"from_name": BOXES, "type": "rectanglelabels", "value": value | {"rectanglelabels": [BOX_LABEL]}}
    text = {"from_name": TEXT, "type": "textarea", "value": value | {"text": [box.text]}, "score": box.score}
    return [shared | rectangle | {"score": box.score}, shared | text]


def _page_entry(name: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"{name}-1"[:10], "from_name": name, "to_name": IMAGE, "type": kind, "value": value}


def _find_annotation(task: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the annotation that counts, or None."""
    made = [entry for entry in task.get("annotations") or [] if not entry.get("was_cancelled")]
    return max(made, key=_time) if made else None


def _time(annotation: Mapping[str, Any]) -> str:
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _author(annotation: Mapping[str, Any]) -> str:
    """The e-mail address of the person, or the number of the user."""
    user = annotation.get("completed_by")
    user = user.get("email") or user.get("id") if isinstance(user, dict) else user
    return user if isinstance(user, str) and user else f"Label Studio user {user}" if user else "Label Studio"


def _history(data: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    edits = data.get(HISTORY) or []
    if not all(isinstance(edit["change"], dict) and isinstance(edit["author"], str) for edit in edits):
        raise TypeError("history")
    return [(edit["author"], str(edit.get("time", "")), edit["change"]) for edit in edits]


def _annotation(data: Mapping[str, Any], result: Sequence[Mapping[str, Any]], where: str) -> Annotation:
    pairs = [_fields(line, 2, KEY_VALUES, where) for line in _lines(result, KEY_VALUES)]
    rows = [_fields(line, 4, TABLE, where) for line in _lines(result, TABLE)]
    chosen = {name: _choice(result, name, where) for name in CHOICES}
    for name, allowed in (("image_type", IMAGE_TYPES), ("image_quality", IMAGE_QUALITIES)):
        if chosen[name] not in allowed:
            raise InputError(f"{where}: {name} {quote_value(chosen[name])} is unknown. Allowed: {', '.join(allowed)}")
    return Annotation(
        idx=str(data.get("idx", "")),
        img_path=data["img_path"],
        key_values=tuple((key, value) for key, value in pairs),
        table=tuple(TableRow(*row) for row in rows),
        extra={str(name): str(value) for name, value in (data.get("extra") or {}).items()},
        report_type=chosen["report_type"],
        image_type=chosen["image_type"],
        image_quality=chosen["image_quality"],
    )


def _lines(result: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    lines: list[str] = []
    for entry in result:
        if entry.get("from_name") == name:
            lines += _texts(entry, "text")
    return [line for line in lines if line.strip()]


def _texts(entry: Mapping[str, Any], name: str) -> list[str]:
    """The texts of an entry. Raises TypeError if they are damaged."""
    texts = entry.get("value", {}).get(name) or []
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} of entry {entry.get('id')!r}")
    return texts


def _choice(result: Iterable[Mapping[str, Any]], name: str, where: str) -> str:
    for entry in result:
        if entry.get("from_name") == name and (choices := _texts(entry, "choices")):
            return choices[0]
    raise InputError(f"{where}: no {name} was chosen. Choose one in Label Studio and export again")


def _join(fields: Sequence[str]) -> str:
    return SEPARATOR.join(field.replace("\\", "\\\\").replace("|", "\\|") for field in fields)


def _fields(line: str, count: int, name: str, where: str) -> tuple[str, ...]:
    r"""Split a line into fields. `\|` is a bar within a field. White space around a field is removed."""
    fields = [""]
    for character in re.findall(r"\\[\\|]|[^\\]|\\", line):
        if character == "|":
            fields.append("")
        else:
            fields[-1] += character[-1]
    if len(fields) != count:
        raise InputError(
            f"{where}: {name} has a line with {len(fields)} fields, {quote_value(line)}. Expected "
            f"{count}, separated by ' | '"
        )
    return tuple(field.strip() for field in fields)


def keep_unchanged(imported: Sequence[Annotation], originals: Sequence[Annotation]) -> list[Annotation]:
    """Restore the original cells of imported rows that nobody corrected, so that they are written back unchanged.

    White space around a key, a value or a table's field does not count as a correction.
    """
    by_image = {annotation.img_path: annotation for annotation in originals}
    kept = []
    for annotation in imported:
        original = by_image.get(annotation.img_path)
        if original is not None:
            pairs = tuple((key.strip(), value.strip()) for key, value in original.key_values)
            rows = tuple(TableRow(*(field.strip() for field in astuple(row))) for row in original.table)
            annotation = replace(
                annotation,
                key_values=original.key_values if pairs == annotation.key_values else annotation.key_values,
                table=original.table if rows == annotation.table else annotation.table,
                raw=original.raw,
            )
        kept.append(annotation)
    return kept
