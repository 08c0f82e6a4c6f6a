"""Chinese prompts for questions about report images, by task and answer type.

A prompt has a system text and an instruction for each task and answer type. The user's message consists of the images,
the restored page, the instruction, the context and the question. Parts that an image's questions share come first, so
that servers can cache them.

    ours    the texts below
    paper   the authors' scripts: no system text or instruction, and replies are used unchanged
    FILE    your own sections, each under a line `=== NAME ===`: `system`, `TASK/ANSWER_TYPE`, and `any` for every task
            without a section

`version_of` is a digest of the prompt of one kind of question. Changing the wording of one task invalidates only that
task's answers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.schema import (
    ADVICE,
    CONTENT_TASKS,
    DISEASE,
    ENTITY,
    MULTIPLE_CHOICE,
    REASONING_TASKS,
    SHORT_ANSWER,
    STATUS,
    TABLE,
    TABLE_NR,
)

OURS, PAPER = "ours", "paper"
SYSTEM_SECTION, ANY_SECTION = "system", "any"

SYSTEM = """\
你是一名阅读医学报告的助手。用户给出一份医学报告（图片，或按版面还原的文字），并就它提问。
要求：
1. 只依据报告的内容以及给出的背景知识作答，不得编造。
2. 直接给出答案，不复述问题，不解释。
3. 数字、单位和符号与报告上印的完全一致，不换算，不改小数位。
4. 报告上没有写的内容，回答“无”。"""

INSTRUCTIONS: Mapping[tuple[str, str], str] = {
    (
        ENTITY,
        "single_entity",
    ): "请从报告中找出所问的一项内容，原样写出它的全部文字，包括换行后的部分；没有写则回答“无”。",
    (ENTITY, "multi_entity"): (
        "请从报告中找出所问的各项内容，按提问的顺序原样写出，各项之间用“;”隔开；没有写的一项写“无”。"
    ),
    (TABLE, "single_span"): "请从报告的表格中找出所问项目的这一格，原样写出；表格里没有该项目或该格为空则回答“无”。",
    (TABLE, "multi_span"): (
        "请从报告的表格中找出所问的各格，按提问的顺序原样写出，各格之间用“;”隔开；没有的一格写“无”。"
    ),
    (TABLE_NR, "single_nr"): (
        "请比较所问项目的结果和参考范围：在范围内回答“正常”，超出范围回答“异常”，没有参考范围或不能比较回答“无法判断”。"
    ),
    (TABLE_NR, "multi_nr"): (
        "请比较各项目的结果和参考范围，写出所问的项目的名称，用“;”隔开；没有这样的项目则回答“无异常结果”。"
    ),
    (DISEASE, MULTIPLE_CHOICE): "请依据报告和背景知识判断诊断，从选项中选出一个，写出选项的字母和全部文字。",
    (STATUS, MULTIPLE_CHOICE): "请依据报告和背景知识判断疾病的状态，从选项中选出一个，写出选项的字母和全部文字。",
    (ADVICE, MULTIPLE_CHOICE): "请依据报告和背景知识判断诊疗建议，从选项中选出一个，写出选项的字母和全部文字。",
    (DISEASE, SHORT_ANSWER): "请依据报告和背景知识写出诊断，只写诊断的名称，多个之间用“;”隔开。",
    (STATUS, SHORT_ANSWER): "请依据报告和背景知识写出疾病的状态，只写结论，多个之间用“;”隔开。",
    (ADVICE, SHORT_ANSWER): "请依据报告和背景知识写出诊疗建议，只写建议本身，多个之间用“;”隔开。",
}
QUESTION_KINDS = (
    *((task, answer_type) for task, types in CONTENT_TASKS.items() for answer_type in types),
    *((task, answer_type) for answer_type in (MULTIPLE_CHOICE, SHORT_ANSWER) for task in REASONING_TASKS),
)
PAGE, CONTEXT, QUESTION = "报告文字（按版面还原）：\n{}", "背景知识：\n{}", "问题：{}"
_HEADING = re.compile(r"^=== (\S+) ===$", re.MULTILINE)


@dataclass(frozen=True)
class DocumentPrompt:
    """The texts of a prompt besides page, context and question.

    Attributes:
        system: "" sends no system message.
        instructions: by task and answer type.
        any: for a task and answer type without an instruction. May be "".
        is_bare: whether page, context and question are joined without headings and replies are used unchanged.
    """

    name: str = OURS
    system: str = SYSTEM
    instructions: Mapping[tuple[str, str], str] = field(default_factory=lambda: INSTRUCTIONS)
    any: str = ""
    is_bare: bool = False

    def version_of(self, task: str, answer_type: str) -> str:
        """Digest of the prompt of this kind of question, with the prompt's name."""
        told = (self.system, self.instruction(task, answer_type), "" if self.is_bare else PAGE + CONTEXT + QUESTION)
        return f"{self.name}-{digest(chr(0).join(told))[:12]}"

    @property
    def version(self) -> str:
        """Digest of the prompts of all kinds of questions."""
        versions = (self.version_of(*kind) for kind in QUESTION_KINDS)
        return f"{self.name}-{digest(' '.join(versions))[:12]}"

    def instruction(self, task: str, answer_type: str) -> str:
        """Return the instruction for this kind of question, or ""."""
        return self.instructions.get((task, answer_type), self.any)

    def user_text(self, request: DocumentRequest) -> str:
        """Return the text of the user's message. Braces in the report's texts are kept."""
        page = request.page.restored.text if request.page is not None else ""
        if self.is_bare:
            return "\n".join(part for part in (page, request.context.strip(), request.question) if part)
        parts = (
            PAGE.format(page) if page else "",
            self.instruction(request.task, request.answer_type),
            CONTEXT.format(request.context.strip()) if request.context.strip() else "",
            QUESTION.format(request.question.strip().removeprefix("问题:")),
        )
        return "\n\n".join(part for part in parts if part)


PAPER_PROMPT = DocumentPrompt(PAPER, "", {}, "", is_bare=True)


def find_prompt(name: str) -> DocumentPrompt:
    """Return the prompt `ours` or `paper`, or the one in a file of that name. Raises ConfigError like `read_prompt`."""
    known = {OURS: DocumentPrompt(), PAPER: PAPER_PROMPT}
    return known[name] if name in known else read_prompt(Path(name))


def read_prompt(path: Path) -> DocumentPrompt:
    """Read a prompt file.

    Raises:
        ConfigError: it cannot be read, has text above its first section, an unknown or repeated section, or no
            instruction for some kind of question.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"prompt {str(path)!r} is neither {OURS!r} nor {PAPER!r} nor a readable file ({error})"
        ) from None
    before, *pieces = _HEADING.split(text)
    if before.strip():
        raise ConfigError(f"prompt file {path}: text above the first line '=== NAME ===': {before.strip()[:40]!r}")
    sections: dict[str, str] = {}
    allowed = [SYSTEM_SECTION, ANY_SECTION, *map("/".join, QUESTION_KINDS)]
    for name, body in zip(pieces[::2], pieces[1::2], strict=True):
        if name not in allowed or name in sections:
            problem = "is repeated" if name in sections else "is unknown"
            raise ConfigError(f"prompt file {path}: section {name!r} {problem}; allowed: {', '.join(allowed)}")
        sections[name] = body.strip()
    system, any_text = sections.pop(SYSTEM_SECTION, ""), sections.pop(ANY_SECTION, None)
    missing = [name for name in map("/".join, QUESTION_KINDS) if name not in sections]
    if missing and any_text is None:
        raise ConfigError(f"prompt file {path}: no section {missing[0]!r}; add it, or a section {ANY_SECTION!r}")
    instructions = {kind: sections["/".join(kind)] for kind in QUESTION_KINDS if "/".join(kind) in sections}
    return DocumentPrompt("file", system, instructions, any_text or "")
