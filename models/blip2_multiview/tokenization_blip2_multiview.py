"""A small T5 tokenizer for tiny models.

Its vocabulary consists of whole words and single characters. It is built without the tokenizers library's training,
whose result changes from run to run.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable

from transformers import T5Tokenizer

TEXTS = (
    "Question: is there evidence of pneumonia, edema, effusion or pneumothorax in the left or right lung? Answer:",
    "Question: what is the size of the heart and where is the opacity? Answer:",
    "yes, there is a small left pleural effusion with mild pulmonary edema and an enlarged heart.",
    "no focal consolidation is seen, the lungs are clear and the heart is normal in size.",
)
SPACE = "\u2581"  # how T5 writes a space


def make_tokenizer(texts: Iterable[str] = TEXTS, vocab_size: int = 512) -> T5Tokenizer:
    """Return a T5 tokenizer (0 pad, 1 end, 2 unknown) with the most frequent words of `texts`.

    Args:
        texts: questions and answers.
        vocab_size: most tokens, including characters.

    Raises:
        ValueError: `vocab_size` is too small for the characters.
    """
    counts: Counter[str] = Counter()
    found = set(string.ascii_letters + string.digits + string.punctuation)
    for text in texts:
        counts.update(re.findall(r"\w+", text))
        found.update(text)
    characters = sorted(character for character in found if not character.isspace())
    special = ["<pad>", "</s>", "<unk>", SPACE]
    room = vocab_size - len(special) - len(characters)
    if room < 0:
        raise ValueError(f"vocab_size is {vocab_size}. The characters of the texts need {vocab_size - room}.")
    words = sorted((word for word in counts if len(word) > 1), key=lambda word: (-counts[word], word))[:room]
    # Any word costs less than two characters, so that words are preferred.
    scores = [(token, 0.0) for token in special[:3]] + [(SPACE, -5.0)]
    scores += [(SPACE + word, -5.0) for word in words] + [(character, -10.0) for character in characters]
    return T5Tokenizer(vocab=scores, extra_ids=0)
