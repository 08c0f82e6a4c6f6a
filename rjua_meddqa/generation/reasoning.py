"""Clinical-reasoning questions: multiple choice and short answer from the context base (paper, Section 4.3.2).

Input, beside the context base, is what experts wrote down about the images: a CSV file, a row for each correct option,
with the columns

    img_path  the image, as in the annotations
    task      disease_qa, advice_qa or status_qa
    title     of the context that the option comes from; empty: the report states it itself
    option    optional: its text, where that is not the title (advice drawn from a description, a TNM stage)
    wrong     optional: wrong options, separated by ";", in place of neighbouring titles
    question  optional: the question's stem, in place of the usual one of the task

A multiple-choice question has one correct option and wrong ones: the three nearest titles of the same kind, none of
them correct for this image. Its passage holds the descriptions of the contexts behind the options. The short answer is
all correct options of (image, task), those that the report states included.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from medvqa_core.errors import InputError
from rjua_meddqa.generation.contexts import ContextBase
from rjua_meddqa.generation.reasoning_file import ReasoningQuestion
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
)

REQUIRED_COLUMNS = ("img_path", "task", "title")
COLUMNS = (*REQUIRED_COLUMNS, "option", "wrong", "question")
NEIGHBOURS = 3  # wrong options (paper, Section 4.3.2)
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
    """A multiple-choice question whose letters are not given yet: the correct option and the wrong ones."""

    finding: Finding
    text: str
    wrong: tuple[str, ...]
    contexts: tuple[Context, ...]  # of the correct option, then of the wrong ones


def read_findings(path: Path) -> list[Finding]:
    """The experts' file.

    Raises:
        InputError: the file is missing, is no CSV of these columns, or a row has an unknown task or no image.
    """
    findings = []
    for where, row in read_cells(path, REQUIRED_COLUMNS):
        cells = {column: row.get(column, "").strip() for column in COLUMNS}
        if not cells["img_path"]:
            raise InputError(f"{where}: no img_path; name the image as the annotations do")
        if cells["task"] not in REASONING_TASKS:
            raise InputError(f"{where}: task {cells['task']!r} is unknown; allowed: {', '.join(REASONING_TASKS)}")
        if ANSWER_SEPARATOR in cells["option"]:
            raise InputError(f"{where}: option {cells['option']!r} holds ';'; give each option a row of its own")
        wrong = tuple(filter(None, map(str.strip, cells.pop("wrong").split(ANSWER_SEPARATOR))))
        if len(wrong) >= len(ascii_uppercase):
            raise InputError(f"{where}: {len(wrong)} wrong options; letters are enough for {len(ascii_uppercase) - 1}")
        findings.append(Finding(**cells, wrong=wrong))
    return findings


_Used = tuple[Finding, Context | None]  # a finding and the context it comes from; None: the report states it


class ReasoningGenerator:
    """Turns experts' findings into questions.

    Args:
        annotations: of the images; image type and quality come from them.
        seed: of the letters; how often each letter is correct does not depend on it.

    Attributes:
        counts: rows that could not be used, by reason: `unknown_image`, `unknown_title`, `no_title_and_no_option`,
            `repeated_option`, `no_wrong_option`; and `fewer_than_3_wrong_options` for questions asked with fewer.
        problems: the first rows that could not be used, named.
    """

    def __init__(self, base: ContextBase, annotations: Iterable[Annotation], seed: int = 0) -> None:
        self.base, self.seed = base, seed
        self.images = {annotation.img_path: annotation for annotation in annotations}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def questions(self, findings: Sequence[Finding]) -> list[ReasoningQuestion]:
        """Multiple-choice questions first, then short answers, each by image, task and order of the findings."""
        groups = self._group(findings)
        choices = [choice for group in groups for choice in self._choices(group)]
        return [*self._letter(choices), *(self._short_answer(group) for group in groups)]

    def _group(self, findings: Sequence[Finding]) -> list[list[_Used]]:
        """Findings with their contexts by (image, task), sorted; what cannot be used is counted."""
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
                self._skip("no_title_and_no_option", finding, "give a title, or what the report states as option")
            elif text in group:
                self._skip("repeated_option", finding, f"{text!r} is there already")
            else:
                group[text] = finding, context
        return [list(group.values()) for _, group in sorted(groups.items()) if group]

    def _choices(self, group: list[_Used]) -> Iterator[_Choice]:
        """A choice for each correct option that comes from a context."""
        correct = {self._text(finding, context) for finding, context in group}
        for finding, context in group:
            if context is None:
                continue
            if finding.wrong:
                neighbours = []
                wrong = [text for text in dict.fromkeys(finding.wrong) if text not in correct]
            else:
                neighbours = self._distractors(context, group)
                wrong = [self.base.option(neighbour) for neighbour in neighbours]
            if not wrong:
                self._skip("no_wrong_option", finding, "the base has no other title of this kind")
                continue
            if len(wrong) < NEIGHBOURS:
                self.counts["fewer_than_3_wrong_options"] += 1
            yield _Choice(finding, self._text(finding, context), tuple(wrong), (context, *neighbours))

    def _distractors(self, context: Context, group: list[_Used]) -> list[Context]:
        """The contexts nearest to `context` that are not correct for the image and read differently from each other."""
        correct = [other for _, other in group]
        taken = {self._text(finding, other) for finding, other in group}
        found: list[Context] = []
        for near in self.base.nearest([context]):
            if near not in correct and self.base.option(near) not in taken and len(found) < NEIGHBOURS:
                taken.add(self.base.option(near))
                found.append(near)
        return found

    def _letter(self, choices: list[_Choice]) -> Iterator[ReasoningQuestion]:
        """Give out letters: among questions with n options every n in a row have each letter correct once."""
        of_size: Counter[int] = Counter()
        for choice in choices:
            size = len(choice.wrong) + 1
            block, place = divmod(of_size[size], size)
            of_size[size] += 1
            right = random.Random(f"{self.seed}\0{size}\0{block}").sample(range(size), size)[place]
            draw = random.Random("\0".join((str(self.seed), *_identify(choice.finding), choice.text)))
            order = draw.sample(range(1, size), size - 1)
            order.insert(right, 0)  # 0 is the correct option
            texts = (choice.text, *choice.wrong)
            options = [f"{ascii_uppercase[letter]}.{texts[option]}" for letter, option in enumerate(order)]
            passage = [choice.contexts[option] for option in order if option < len(choice.contexts)]
            stem = f"问题:{_stem(choice.finding)}\n选项:{ANSWER_SEPARATOR.join(options)}\n"
            yield self._ask(choice.finding, stem, options[right], MULTIPLE_CHOICE, passage)

    def _short_answer(self, group: list[_Used]) -> ReasoningQuestion:
        contexts = [context for _, context in group if context is not None]
        distractors = self._distractors(contexts[0], group) if contexts else []
        passage = sorted(dict.fromkeys((*contexts, *distractors)), key=_by_idx)
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
            context="".join(f"{number}.{context.description}\n" for number, context in enumerate(passage, start=1)),
            image_type=image.image_type,
            image_quality=image.image_quality,
            context_id=ANSWER_SEPARATOR.join(context.idx for context in sorted(passage, key=_by_idx)),
        )

    def _text(self, finding: Finding, context: Context | None) -> str:
        """The text of a correct option; empty where neither the row nor a context has one."""
        return finding.option or (self.base.option(context) if context is not None else "")

    def _skip(self, reason: str, finding: Finding, detail: str) -> None:
        self.counts[reason] += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"{finding.img_path}, {finding.task}: {detail}")


def _stem(finding: Finding) -> str:
    return finding.question or STEMS[finding.task]


def _identify(finding: Finding) -> tuple[str, str, str]:
    return finding.img_path, finding.task, finding.title


def _by_idx(context: Context) -> tuple[int, int, str]:
    """Sort key: numbers by value, before names."""
    return (0, int(context.idx), "") if context.idx.isdecimal() else (1, 0, context.idx)
