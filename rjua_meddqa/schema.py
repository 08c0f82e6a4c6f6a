"""What the rows of RJUA-MedDQA hold: the only place where columns, tasks and fixed words are named.

Names and values are those of the released files (paper, Sections 3.2 and 4.2; annotation CSV and question JSON lines).
"""

from dataclasses import dataclass, field
from typing import Any, Literal

MISSING = "无"  # the annotators' word for "nothing is written there"
NO_ABNORMAL = "无异常结果"  # the answer to "what is out of range?" where nothing is
ANSWER_SEPARATOR = ";"  # between the parts of an answer to a question about several things

NORMAL, HIGH, LOW, ABNORMAL, UNDECIDED = "是", "否(偏高)", "否(偏低)", "否", "无法判断"
IS_NORMAL_VALUES = (NORMAL, HIGH, LOW, ABNORMAL, UNDECIDED)
STATUS_WORDS = {NORMAL: "正常", HIGH: "异常", LOW: "异常", ABNORMAL: "异常", UNDECIDED: "无法判断"}  # in answers

LABORATORY = "Laboratory"  # the report type that has a table; every other type is clinical
IMAGE_TYPES = ("pdf", "photo", "screenshot")
IMAGE_QUALITIES = ("high", "low")

ANNOTATION_COLUMNS = ("idx", "img_path", "kv", "table", "report_type", "image_type", "image_quality")
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
REASONING_COLUMNS = (
    "img_path",
    "question",
    "answer",
    "task",
    "answer_type",
    "context",
    "image_type",
    "image_quality",
    "context_id",
)
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
    """One recognised piece of text: four corners (x, y) in pixels, clockwise from where the text starts."""

    points: tuple[Point, Point, Point, Point]
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
    """Boxes of each line from left to right, lines from top to bottom, and the text that they make.

    The last `beside` lines hold what stands beside the page's text, a box each: in its margin, or on a picture.
    """

    lines: tuple[tuple[Box, ...], ...]
    text: str
    beside: int = 0

    @property
    def body(self) -> tuple[tuple[Box, ...], ...]:
        """The lines of the page's text."""
        return self.lines[: len(self.lines) - self.beside]


@dataclass(frozen=True, slots=True)
class TableRow:
    """A quadruplet of a laboratory table (paper, Section 4.2.1); `is_normal` is one of IS_NORMAL_VALUES."""

    item: str
    result: str
    range: str
    is_normal: str


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A row of a laboratory table as a page prints it, each cell apart; "" where a cell is empty.

    Attributes:
        unit: of the result and of the range: what the column of units says, never a part of `range`.
        range: the reference range as its cell says it, which may hold a unit itself.
        flags: arrows and words of a column of flags.
        is_one_line: whether result and range stand on one printed line of the page, by their boxes; where they do not,
            one of them may be another row's, and nothing is concluded from the two.
    """

    item: str
    result: str
    unit: str = ""
    range: str = ""
    flags: str = ""
    is_one_line: bool = True


@dataclass(frozen=True, slots=True)
class DraftRow(PrintedRow):
    """A printed row and whether its result is normal: one of IS_NORMAL_VALUES, and why."""

    is_normal: str = UNDECIDED
    is_normal_reason: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """All that people wrote down about one report image.

    Attributes:
        key_values: (key, value) in the order of the file; a key that occurs twice is there twice.
        extra: columns of the file that are not ours, by name; they survive a round trip.
        raw: cells as the file has them, by column, so that what was not changed is written back to the letter.
    """

    idx: str
    img_path: str
    key_values: tuple[tuple[str, str], ...]
    table: tuple[TableRow, ...]
    report_type: str
    image_type: Literal["pdf", "photo", "screenshot"]
    image_quality: Literal["high", "low"]
    extra: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Question:
    """One image-content question, as a released JSON line; `extra` holds columns that are not ours."""

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
