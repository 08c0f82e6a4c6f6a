"""Columns, tasks and fixed words of RJUA-MedDQA, as in the released files (paper, Sections 3.2 and 4.2)."""

from dataclasses import dataclass, field, fields
from typing import Any

MISSING = "无"  # the annotators' word for an empty field
NO_ABNORMAL = "无异常结果"  # the answer if no item is out of range
ANSWER_SEPARATOR = ";"  # between the parts of an answer

NORMAL, HIGH, LOW, ABNORMAL, UNDECIDED = "是", "否(偏高)", "否(偏低)", "否", "无法判断"
IS_NORMAL_VALUES = (NORMAL, HIGH, LOW, ABNORMAL, UNDECIDED)
STATUS_WORDS = {NORMAL: "正常", HIGH: "异常", LOW: "异常", ABNORMAL: "异常", UNDECIDED: "无法判断"}  # in answers

LABORATORY = "Laboratory"  # the report type with a table. Other types are clinical
IMAGE_TYPES = ("pdf", "photo", "screenshot")
IMAGE_QUALITIES = ("high", "low")

ANNOTATION_COLUMNS = ("idx", "img_path", "kv", "table", "report_type", "image_type", "image_quality")
CONTEXT_COLUMNS = ("idx", "title", "context_type", "description")

ENTITY, TABLE, TABLE_NR = "entity_qa", "table_qa", "table_nr_qa"
DISEASE, ADVICE, STATUS = "disease_qa", "advice_qa", "status_qa"
CONTENT_TASKS = {
    ENTITY: ("single_entity", "multi_entity"),
    TABLE: ("single_span", "multi_span"),
    TABLE_NR: ("single_nr", "multi_nr"),
}
REASONING_TASKS = (DISEASE, ADVICE, STATUS)
MULTIPLE_CHOICE, SHORT_ANSWER = "MC", "SA"

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A recognised text with its four corners (x, y) in pixels, clockwise from its upper left."""

    points: tuple[Point, ...]
    text: str
    score: float = 1.0

    @property
    def left(self) -> float:
        return min(x for x, _ in self.points)

    @property
    def right(self) -> float:
        return max(x for x, _ in self.points)

    @property
    def top(self) -> float:
        return min(y for _, y in self.points)

    @property
    def bottom(self) -> float:
        return max(y for _, y in self.points)

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclass(frozen=True, slots=True)
class RestoredText:
    """The lines of a page from top to bottom, their boxes from left to right, and the resulting text.

    Each of the last `beside` lines is a box outside the page's text, in the margin or on a picture.
    """

    lines: tuple[tuple[Box, ...], ...]
    text: str
    beside: int = 0

    @property
    def body(self) -> tuple[tuple[Box, ...], ...]:
        """The lines of the page's text."""
        return self.lines[: len(self.lines) - self.beside]


@dataclass(frozen=True)
class Page:
    """A restored report image.

    Attributes:
        image: file name.
        width, height: size in pixels of the original image, as a viewer shows it.
        boxes: recognised text, in pixels of the rectified page. Empty for an image without text.
        original_boxes: the same boxes in the same order, in pixels of the original image.
        direction: degrees clockwise by which the image was turned to be upright: 0, 90, 180 or 270.
        angle: degrees clockwise of the skew that was removed after that.
        quality: high | low (paper, Appendix B) or unreadable. `quality_reason` explains it.
        image_type: pdf | photo | screenshot, as estimated or given.
        restored: lines and text (ESRA).
    """

    image: str
    width: int
    height: int
    boxes: tuple[Box, ...]
    original_boxes: tuple[Box, ...]
    direction: int
    angle: float
    quality: str
    quality_reason: str
    image_type: str
    restored: RestoredText


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a laboratory table (paper, Section 4.2.1). `is_normal` is one of IS_NORMAL_VALUES."""

    item: str
    result: str
    range: str
    is_normal: str


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """The printed cells of a row of a laboratory table, "" for an empty one.

    Attributes:
        unit: content of the unit column. The cell `range` may hold a unit as well.
        flags: arrows and words of a flag column.
        is_one_line: whether result and range are on one printed line. If not, one of them may belong to another row,
            and no verdict is drawn from them.
    """

    item: str
    result: str
    unit: str = ""
    range: str = ""
    flags: str = ""
    is_one_line: bool = True


@dataclass(frozen=True, slots=True)
class DraftRow(PrintedRow):
    """A printed row with its verdict, one of IS_NORMAL_VALUES, and the reason."""

    is_normal: str = UNDECIDED
    is_normal_reason: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The annotation of one report image.

    Attributes:
        key_values: (key, value) in the order of the file, with repeated keys.
        extra: unknown columns of the file, which survive a round trip.
        raw: the cells of the file, so that unchanged ones are written back byte for byte.
    """

    idx: str
    img_path: str
    key_values: tuple[tuple[str, str], ...]
    table: tuple[TableRow, ...]
    report_type: str
    image_type: str
    image_quality: str
    extra: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Question:
    """An image-content question. `extra` holds unknown columns."""

    img_path: str
    question: str
    answer: str
    task: str
    answer_type: str
    image_type: str
    is_table: int
    image_quality: str
    answer_length: int
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReasoningQuestion:
    """A clinical-reasoning question. `context` is its passage, `context_id` the ids of its contexts ("5;7;9")."""

    img_path: str
    question: str
    answer: str
    task: str
    answer_type: str
    context: str
    image_type: str
    image_quality: str
    context_id: str


QUESTION_COLUMNS = (
    "img_path",
    "question",
    "answer",
    "answer_length",
    "task",
    "answer_type",
    "image_type",
    "is_table",
    "image_quality",
)
REASONING_COLUMNS = tuple(column.name for column in fields(ReasoningQuestion))
