"""Clinical-reasoning questions: multiple choice and short answer from the context base (paper, Section 4.3.2).

Besides the context base, the input is a CSV file by experts with a row for each correct option:

    img_path  the image, as in the annotations
    task      disease_qa, advice_qa or status_qa
    title     of the option's context, empty if the report itself states the option
    option    optional: its text if that is not the title (advice taken from a description, a TNM stage)
    wrong     optional: wrong options, separated by ";", instead of neighbouring titles
    question  optional: the question, instead of the default one of the task

A multiple-choice question has one correct and two to four wrong options, as the released ones have. Wrong options are
texts of the nearest titles of the same kind and of similar length. They are not true of the image in any task. The
short answer is all correct options of (image, task). All questions of (image, task) share one passage, the
descriptions of their options.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from medvqa_core.errors import InputError
from rjua_meddqa.generation.contexts import ContextBase
from rjua_meddqa.released import Context, read_cells
from rjua_meddqa.schema import (
    ADVICE,
    ANSWER_SEPARATOR,
    DISEASE,
    MULTIPLE_CHOICE,
    REASONING_TASKS,
    SHORT_ANSWER,
    STATUS,
    Annotation,
    ReasoningQuestion,
)

REQUIRED_COLUMNS = ("img_path", "task", "title")
COLUMNS = (*REQUIRED_COLUMNS, "option", "wrong", "question")
RELEASED_SIZES = (3, 4, 5, 5, 5, 5, 5, 5)  # numbers of options of released questions
FEWEST_WRONG, MOST_WRONG = 2, 4
NEIGHBOURS = 3  # distractors in a passage without multiple choice (paper, Section 4.3.2)
LENGTHS = (0.5, 2.0)  # allowed ratio of the lengths of a wrong and the correct option
FEW_CHARACTERS = 4  # a difference that is always allowed
STEMS = {
    DISEASE: "根据检验报告中的异常指标，进行相应的疾病诊断",
    ADVICE: "根据检验报告中的异常指标，给出和疾病相关的诊疗建议",
    STATUS: "根据报告中的内容，判断疾病的状态或分期",
}
SHOWN_PROBLEMS = 20


@dataclass(frozen=True)
class Finding:
    """One row of the experts' file."""

    img_path: str
    task: str
    title: str
    option: str
    wrong: tuple[str, ...]
    question: str


@dataclass(frozen=True)
class _Choice:
    """The options of a multiple-choice question before they get letters."""

    finding: Finding
    text: str
    wrong: tuple[str, ...]


@dataclass
class _Truth:
    """What is true of an image in any task, and must not be a wrong option."""

    titles: set[str]
    texts: set[str]


def read_findings(path: Path) -> list[Finding]:
    """Read the experts' file.

    Raises:
        InputError: the file is missing, lacks a column, or a row has an unknown task or no image.
    """
    findings = []
    for where, row in read_cells(path, REQUIRED_COLUMNS):
        cells = {column: row.get(column, "").strip() for column in COLUMNS}
        if not cells["img_path"]:
            raise InputError(f"{where}: img_path is empty. Name the image as in the annotations.")
        if cells["task"] not in REASONING_TASKS:
            raise InputError(f"{where}: task {cells['task']!r} is unknown. Allowed: {', '.join(REASONING_TASKS)}.")
        if ANSWER_SEPARATOR in cells["option"]:
            raise InputError(f"{where}: option {cells['option']!r} contains ';'. Write each option into its own row.")
        wrong = tuple(filter(None, map(str.strip, cells.pop("wrong").split(ANSWER_SEPARATOR))))
        if len(wrong) >= len(ascii_uppercase):
            raise InputError(f"{where}: {len(wrong)} wrong options. At most {len(ascii_uppercase) - 1} are possible.")
        findings.append(Finding(**cells, wrong=wrong))
    return findings


_Used = tuple[Finding, Context | None]  # a finding and its context, None if the report states it


class ReasoningGenerator:
    """Turns experts' findings into questions.

    Args:
        annotations: of the images, for image type and quality.
        seed: of the letters.
        options: of a multiple-choice question, 3 to 5. None draws a number as in the released questions.

    Attributes:
        counts: omitted rows by reason (`unknown_image`, `unknown_title`, `no_title_and_no_option`, `repeated_option`),
            rows without multiple choice (`too_few_wrong_options`), and questions with `fewer_options` than planned.
        problems: messages about the first omitted rows.
    """

    def __init__(
        self, base: ContextBase, annotations: Iterable[Annotation], seed: int = 0, options: int | None = None
    ) -> None:
        self.base, self.seed, self.options = base, seed, options
        self._truths: dict[str, _Truth] = {}
        self._written: dict[str, list[str]] = {}  # context idx -> options that experts wrote for it
        self.images = {annotation.img_path: annotation for annotation in annotations}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def questions(self, findings: Sequence[Finding]) -> list[ReasoningQuestion]:
        """Multiple-choice questions, then short answers, each by image, task and order of the findings."""
        groups = self._group(findings)
        self._collect_truth(groups)
        choices: list[tuple[_Choice, list[Context]]] = []
        answers = []
        for group in groups:
            made = list(self._choices(group))
            passage = self._passage(group, [context for _, wrong in made for context in wrong])
            choices += [(choice, passage) for choice, _ in made]
            answers.append(self._short_answer(group, passage))
        return [*self._letter(choices), *answers]

    def _collect_truth(self, groups: Sequence[list[_Used]]) -> None:
        """Collect what is true of each image, and the experts' options for each context."""
        self._truths, self._written = {}, {}
        for finding, context in (used for group in groups for used in group):
            truth = self._truths.setdefault(finding.img_path, _Truth(set(), set()))
            truth.texts |= {self._text(finding, context), finding.title} - {""}
            if context is not None:
                truth.titles.add(context.title)
                if finding.option:
                    self._written.setdefault(context.idx, []).append(finding.option)

    def _group(self, findings: Sequence[Finding]) -> list[list[_Used]]:
        """Group the usable findings and their contexts by (image, task), sorted. The others are counted."""
        groups: dict[tuple[str, str], dict[str, _Used]] = {}
        for finding in findings:
            context = self.base.find(finding.title, finding.task)
            group = groups.setdefault((finding.img_path, finding.task), {})
            text = self._text(finding, context)
            if finding.img_path not in self.images:
                self._skip("unknown_image", finding, "no annotation has this img_path")
            elif finding.title and context is None:
                self._skip("unknown_title", finding, f"no context of this task has the title {finding.title!r}")
            elif not text:
                self._skip("no_title_and_no_option", finding, "add a title, or the text of the report as option")
            elif text in group:
                self._skip("repeated_option", finding, f"{text!r} occurs twice")
            else:
                group[text] = finding, context
        return [list(group.values()) for _, group in sorted(groups.items()) if group]

    def _choices(self, group: list[_Used]) -> Iterator[tuple[_Choice, list[Context]]]:
        """Yield a choice for each correct option with a context, and the contexts of its wrong options."""
        for finding, context in group:
            if context is None:
                continue
            text, truth = self._text(finding, context), self._truths[finding.img_path]
            size = self.options or self._draw("size", finding, text).choice(RELEASED_SIZES)
            if finding.wrong:
                said = truth.texts | truth.titles
                others = [other for other in dict.fromkeys(finding.wrong) if other not in said]
                wrong: list[tuple[str, Context | None]] = [(other, None) for other in others[:MOST_WRONG]]
                size = len(wrong) + 1
            else:
                wrong = [*self._distractors(finding, context, text)[: size - 1]]
            if len(wrong) < FEWEST_WRONG:
                self._skip("too_few_wrong_options", finding, f"{text!r} needs two wrong options of its kind and length")
                continue
            if len(wrong) < size - 1:
                self.counts["fewer_options"] += 1
            choice = _Choice(finding, text, tuple(other for other, _ in wrong))
            yield choice, [source for _, source in wrong if source is not None]

    def _distractors(self, finding: Finding, context: Context, text: str) -> list[tuple[str, Context]]:
        """(text, context) of wrong options of similar length, nearest titles first.

        An option by experts is mixed with options by experts, a title with titles.
        """
        truth = self._truths[finding.img_path]
        taken = truth.texts | {text}
        found: list[tuple[str, Context]] = []
        for near in self.base.nearest([context]):
            if near.title in truth.titles or near.title in truth.texts:
                continue
            texts = self._written.get(near.idx, [])
            if not finding.option:
                texts = [self.base.option(near)] if self.base.has_option(near) == self.base.has_option(context) else []
            elif self.base.has_option(near):
                texts = [*texts, self.base.option(near)]
            fitting = [other for other in texts if other not in taken and _has_similar_length(other, text)]
            if fitting:
                found.append((min(fitting), near))
                taken.add(found[-1][0])
        return found

    def _passage(self, group: list[_Used], wrong: Sequence[Context]) -> list[Context]:
        """The contexts of all questions of a group, in random order."""
        own = [context for _, context in group if context is not None]
        if own and not wrong:
            truth = self._truths[group[0][0].img_path]
            wrong = [near for near in self.base.nearest(own) if near.title not in truth.titles][:NEIGHBOURS]
        passage = sorted(dict.fromkeys((*own, *wrong)), key=_by_idx)
        return self._draw("passage", group[0][0], "").sample(passage, len(passage))

    def _draw(self, what: str, finding: Finding, text: str) -> random.Random:
        return random.Random("\0".join((str(self.seed), what, finding.img_path, finding.task, text)))

    def _letter(self, choices: Sequence[tuple[_Choice, list[Context]]]) -> Iterator[ReasoningQuestion]:
        """Assign letters. In each block of n questions with n options, every letter is correct once."""
        of_size: Counter[int] = Counter()
        for choice, passage in choices:
            size = len(choice.wrong) + 1
            block, place = divmod(of_size[size], size)
            of_size[size] += 1
            right = random.Random(f"{self.seed}\0{size}\0{block}").sample(range(size), size)[place]
            names = choice.finding.img_path, choice.finding.task, choice.finding.title
            draw = random.Random("\0".join((str(self.seed), *names, choice.text)))
            order = draw.sample(range(1, size), size - 1)
            order.insert(right, 0)  # the correct option
            texts = (choice.text, *choice.wrong)
            options = [f"{ascii_uppercase[letter]}.{texts[option]}" for letter, option in enumerate(order)]
            stem = f"问题:{_stem(choice.finding)}\n选项:{ANSWER_SEPARATOR.join(options)}\n"
            yield self._ask(choice.finding, stem, options[right], MULTIPLE_CHOICE, passage)

    def _short_answer(self, group: list[_Used], passage: Sequence[Context]) -> ReasoningQuestion:
        finding = next((finding for finding, _ in group if finding.question), group[0][0])
        answer = ANSWER_SEPARATOR.join(self._text(*used) for used in group)
        return self._ask(finding, f"问题:{_stem(finding)}\n", answer, SHORT_ANSWER, passage)

    def _ask(
        self, finding: Finding, question: str, answer: str, answer_type: str, passage: Sequence[Context]
    ) -> ReasoningQuestion:
        image = self.images[finding.img_path]
        return ReasoningQuestion(
            img_path=finding.img_path,
            question=question,
            answer=answer,
            task=finding.task,
            answer_type=answer_type,
            context=_write_passage(passage),
            image_type=image.image_type,
            image_quality=image.image_quality,
            context_id=ANSWER_SEPARATOR.join(context.idx for context in sorted(passage, key=_by_idx)),
        )

    def _text(self, finding: Finding, context: Context | None) -> str:
        """The text of a correct option, "" if neither the row nor a context has one."""
        return finding.option or (self.base.option(context) if context is not None else "")

    def _skip(self, reason: str, finding: Finding, detail: str) -> None:
        self.counts[reason] += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"{finding.img_path}, {finding.task}: {detail}")


def _stem(finding: Finding) -> str:
    return finding.question or STEMS[finding.task]


def _write_passage(passage: Sequence[Context]) -> str:
    """Descriptions as released: numbered, unless there is only one."""
    if len(passage) == 1:
        return f"{passage[0].description}\n"
    return "".join(f"{number}.{context.description}\n" for number, context in enumerate(passage, start=1))


def _has_similar_length(wrong: str, correct: str) -> bool:
    """Whether the lengths of two options do not give the answer away."""
    low, high = LENGTHS
    return low <= len(wrong) / len(correct) <= high or abs(len(wrong) - len(correct)) <= FEW_CHARACTERS


def _by_idx(context: Context) -> tuple[int, int, str]:
    """Sort key: numbers by value, then names."""
    return (0, int(context.idx), "") if context.idx.isdecimal() else (1, 0, context.idx)
