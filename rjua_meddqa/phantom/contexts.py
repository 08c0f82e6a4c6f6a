"""The synthetic context base: the meaning of findings in synthetic reports. It is invented and not medical advice.

The kinds are those of the released base. A laboratory finding has a disease and an advice. As in the released
questions, an option of a question about advice is the advice itself, not its title.
"""

from rjua_meddqa.phantom.contents import CONTENTS
from rjua_meddqa.released import Context

_DISEASE, _ADVICE = "检查-疾病", "疾病-建议"
_OPTIONS = (_ADVICE, "疾病-检查", "疾病-治疗")  # kinds with the description as option


def contexts() -> list[Context]:
    """The whole base, numbered from 1."""
    entries = [(title, _DISEASE, criterion) for title, criterion, _ in CONTENTS["laboratory_contexts"]]
    entries += [(title, _ADVICE, advice) for title, _, advice in CONTENTS["laboratory_contexts"]]
    entries += CONTENTS["clinical_contexts"]
    return [
        Context(str(number), title, kind, description)
        for number, (title, kind, description) in enumerate(entries, start=1)
    ]


def option(context: Context) -> str:
    """The text of `context` as an option, empty if it is the title."""
    return context.description.rstrip("。") if context.context_type in _OPTIONS else ""
