"""Chinese texts: punctuation to ASCII, and three ways to cut a text into the units that ROUGE-L counts.

`characters` is what we score. `words` are jieba's (extra `words`). `released` is what RJUA-MedDQA's own script does: it
splits at white space, so that a Chinese sentence is one single word; kept by name, to compare with published figures.
"""

from functools import cache
from typing import Any

from medvqa_core.errors import ConfigError
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


def map_punctuation(text: str) -> str:
    """`text` with full-width and Chinese punctuation as ASCII; letters and digits stay as they are."""
    return text.translate(_PUNCTUATION)


def characters(text: str) -> list[str]:
    """Every character but white space."""
    return [character for character in map_punctuation(text) if not character.isspace()]


def words(text: str) -> list[str]:
    """jieba's words. Raises ConfigError where jieba is not installed."""
    return [word for word in _jieba().lcut(map_punctuation(text)) if not word.isspace()]


def released(text: str) -> list[str]:
    """What stands between white space."""
    return map_punctuation(text).split()


UNITS: dict[str, Tokenizer] = {"characters": characters, "words": words, "released": released}


def find_units(name: str) -> Tokenizer:
    """The tokenizer of that name. Raises ConfigError for an unknown one."""
    if name not in UNITS:
        raise ConfigError(f"units {name!r} are unknown; allowed: {', '.join(UNITS)}")
    return UNITS[name]


@cache
def _jieba() -> Any:
    try:
        import jieba
    except ImportError as error:
        raise ConfigError("ROUGE-L on words needs jieba; pip install 'medvqa-hub[words]', or use characters") from error
    import logging

    jieba.setLogLevel(logging.WARNING)  # it reports its own loading otherwise
    tokenizer = jieba.Tokenizer()  # its own: words that others add to the global one must not move scores
    tokenizer.initialize()
    return tokenizer
