"""The prompts for answering questions about a study (after Appendices B and C of the paper, in our own words).

The bundled prompt is `prompt.txt`, in the format of `--prompt-file`. The shared parts come first and the question last,
so that a server's prefix cache holds the instructions and the report. The prompt version is a digest of the texts, so
answers of two prompts are never mixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import object_schema
from mimic_cxr_vqa.generation.retries import TEXTS

PARTS = ("indication", "findings", "question")
_MARK = "=== user ==="  # separates the system prompt from the user prompt in a prompt file
NO_INDICATION = "not given"


def _split(text: str, where: str) -> tuple[str, str]:
    """The system prompt and the user prompt of a prompt file."""
    system, mark, user = text.partition(f"\n{_MARK}\n")
    if not mark:
        raise ConfigError(f"{where} lacks the line {_MARK!r} between the system prompt and the user prompt.")
    places = [user.find("{" + part + "}") for part in PARTS]
    if -1 in places or places != sorted(places) or any(user.count("{" + part + "}") > 1 for part in PARTS):
        raise ConfigError(f"{where}: expected {{indication}}, {{findings}} and {{question}} once each, in this order.")
    return system.strip(), user.strip()


SYSTEM, USER = _split(Path(__file__).with_name("prompt.txt").read_text(encoding="utf-8"), "the bundled prompt")
SYSTEM_MANY = SYSTEM.replace(
    'Format. Reply with {"question": "<the question>", "answer": "<your answer>"} and nothing else.',
    'Format. The questions are numbered. Reply with {"answers": [{"number": 1, "answer": "<your answer>"}, …]}, one '
    "entry for every question, each answer complete in itself, and nothing else.",
)

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
ONE_SCHEMA = object_schema(question=_TEXT, answer=_TEXT)
MANY_SCHEMA = object_schema(answers={"type": "array", "items": object_schema(number=_NUMBER, answer=_TEXT)})


@dataclass(frozen=True)
class Prompt:
    """The system prompts, and the user template with its three fields in braces."""

    system: str = SYSTEM
    user: str = USER
    system_many: str = SYSTEM_MANY

    @property
    def version(self) -> str:
        """A readable name and a digest of the texts."""
        texts = "\0".join((self.system, self.user, self.system_many, TEXTS))
        name = "ours" if self == Prompt() else "file"
        return f"{name}-{digest(texts)[:12]}"

    def fill(self, indication: str | None, findings: str, questions: Sequence[str], again: str = "") -> str:
        """The user message. Several questions are numbered, and `again` comes last. Braces in a report are kept."""
        asked = (
            questions[0] if len(questions) == 1 else "\n" + "\n".join(f"{n}. {q}" for n, q in enumerate(questions, 1))
        )
        values = {"indication": indication or NO_INDICATION, "findings": findings, "question": asked}
        pieces, rest = [], self.user
        for part in PARTS:
            before, _, rest = rest.partition("{" + part + "}")
            pieces += [before, values[part]]
        return "".join(pieces) + rest + again


def read_prompt(path: Path) -> Prompt:
    """Read a prompt file: the system prompt, a line `=== user ===`, and the user prompt with its three fields.

    Raises:
        ConfigError: the file is unreadable, lacks the line, or does not have {indication}, {findings} and {question}
            once each in this order (a study's questions share the text before the question).
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Prompt file {path} cannot be read ({error}).") from None
    system, user = _split(text, f"Prompt file {path}")
    return Prompt(system, user, system)
