"""Normalises Chinese punctuation and splits texts into characters or words (jieba, extra `words`) for ROUGE-L.

`released_rouge.py` has the units of RJUA-MedDQA's own script.
"""

import re
from functools import cache
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.install_hint import install
from medvqa_core.metrics.scores import Tokenizer

_PUNCTUATION = str.maketrans(
    {
        **dict(zip("，。：；？！（）【】", ",.:;?!()[]", strict=True)),
        **dict(zip("“”‘’「」『』", "\"\"''\"\"''", strict=True)),
        **dict(zip("、～《》〈〉％＋－＝／＜＞＊＃＆［］｛｝．", ",~<><>%+-=/<>*#&[]{}.", strict=True)),
        "—": "-",
        "\u3000": " ",
    }
)

_DASHES = str.maketrans(dict.fromkeys("~‐‑‒–―−─﹣∼〜˜", "-"))
_WIDE = str.maketrans({0xFF01 + place: 0x21 + place for place in range(0x5E)})
_RELEASED = str.maketrans(dict(zip("，。！？：；“”‘’（）【】～~—", ",.!?:;\"\"''()[]---", strict=True)) | {"…": "..."})


def map_released(text: str) -> str:
    """`text` with those signs replaced that RJUA-MedDQA's script replaces: ～ ~ — by a hyphen, … by three dots."""
    return text.translate(_RELEASED)


def fold_signs(text: str) -> str:
    """`text` with signs of every width and kind alike: ASCII for full-width forms, one - for ~ and --, ... for ……."""
    text = map_punctuation(text).translate(_WIDE).translate(_DASHES).replace("…", "...")
    return re.sub(r"\.{3,}", "...", re.sub(r"-+", "-", text))


def map_punctuation(text: str) -> str:
    """`text` with full-width and Chinese punctuation as ASCII; letters and digits stay as they are."""
    return text.translate(_PUNCTUATION)


def characters(text: str) -> list[str]:
    """Every character but white space."""
    return [character for character in fold_signs(text) if not character.isspace()]


def words(text: str) -> list[str]:
    """jieba's words. Raises ConfigError if jieba is not installed."""
    return [word for word in _jieba().lcut(fold_signs(text)) if not word.isspace()]


UNITS: dict[str, Tokenizer] = {"characters": characters, "words": words}


def find_units(name: str) -> Tokenizer:
    """The tokenizer of that name. Raises ConfigError for an unknown one."""
    if name not in UNITS:
        raise ConfigError(f"units {name!r} are unknown. Allowed: {', '.join(UNITS)}")
    return UNITS[name]


@cache
def _jieba() -> Any:
    try:
        import jieba
    except ImportError as error:
        raise ConfigError(f"ROUGE-L on words needs jieba. Run: {install('words')}, or use characters") from error
    import logging

    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()  # not the global one, which others may extend
    tokenizer.initialize()
    return tokenizer
