"""Chinese prompts for questions about report images, by task and answer type.

A prompt has a system text and an instruction for each task and answer type. The user's message consists of the images,
the restored page, the instruction, the context and the question. Parts that an image's questions share come first, so
that servers can cache them.

    ours    the file our_prompt.txt, an example of such a file
    paper   the authors' scripts: no system text or instruction, and replies are used unchanged
    FILE    your own sections, each under a line `=== NAME ===`: `system`, `TASK/ANSWER_TYPE`, and `any` for every task
            without a section

`version_of` is a digest of the prompt of one kind of question. Changing the wording of one task invalidates only that
task's answers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.schema import CONTENT_TASKS, MULTIPLE_CHOICE, REASONING_TASKS, SHORT_ANSWER

OURS, PAPER = "ours", "paper"
SYSTEM_SECTION, ANY_SECTION = "system", "any"

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

    name: str
    system: str
    instructions: Mapping[tuple[str, str], str]
    any: str
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


def read_prompt(path: Path, name: str = "file") -> DocumentPrompt:
    """Read a prompt file. The digests of its texts begin with `name`.

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
    for section, body in zip(pieces[::2], pieces[1::2], strict=True):
        if section not in allowed or section in sections:
            problem = "is repeated" if section in sections else "is unknown"
            raise ConfigError(f"prompt file {path}: section {section!r} {problem}; allowed: {', '.join(allowed)}")
        sections[section] = body.strip()
    system, any_text = sections.pop(SYSTEM_SECTION, ""), sections.pop(ANY_SECTION, None)
    missing = [section for section in map("/".join, QUESTION_KINDS) if section not in sections]
    if missing and any_text is None:
        raise ConfigError(f"prompt file {path}: no section {missing[0]!r}; add it, or a section {ANY_SECTION!r}")
    instructions = {kind: sections["/".join(kind)] for kind in QUESTION_KINDS if "/".join(kind) in sections}
    return DocumentPrompt(name, system, instructions, any_text or "")


OUR_PROMPT = read_prompt(Path(__file__).with_name("our_prompt.txt"), OURS)
PAPER_PROMPT = DocumentPrompt(PAPER, "", {}, "", is_bare=True)


def find_prompt(name: str) -> DocumentPrompt:
    """Return the prompt `ours` or `paper`, or the one in a file of that name. Raises ConfigError like `read_prompt`."""
    known = {OURS: OUR_PROMPT, PAPER: PAPER_PROMPT}
    return known[name] if name in known else read_prompt(Path(name))
