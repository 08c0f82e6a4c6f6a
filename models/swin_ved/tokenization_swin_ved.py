"""A word-level tokenizer for SwinVED, trained from the questions and answers themselves.

A token is a run of letters and digits, or a run of punctuation (wordpunct's), in lower case; a text decodes to its
tokens joined by spaces, as the released model writes. The first seven ids are the release's: [CLS] 0, [PAD] 1, [SEP] 2,
[UNK] 3, [MASK] 4, [BOS] 5, [EOS] 6.

What differs from the release: it cut words with one pattern for the vocabulary (ASCII letters and digits, in lower
case) and another for the texts, whose case it kept, so that with such a vocabulary a capitalised word is [UNK]; here
both use the second, in lower case. Ids follow frequency. `load_vocabulary` reads a released vocabulary file with its
own ids, and texts as the release read them: weights that were trained with [UNK] in these places need it there.

This file needs `tokenizers` and is not copied into checkpoints: the trained tokenizer is saved there whole.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.trainers import WordLevelTrainer
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "[BOS]", "[EOS]")
# Python's `\w+|[^\w\s]+`, which is wordpunct's, spelt out: the tokenizers library's own \w has marks and no "½" or "²".
WORDS = r"[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s\x1c-\x1f]+"


def train_tokenizer(
    texts: Iterable[str], vocab_size: int | None = None, min_frequency: int = 1
) -> PreTrainedTokenizerFast:
    """Train a tokenizer on questions and answers.

    Args:
        texts: all texts, read once.
        vocab_size: most tokens, the seven special ones included; the rarest words are left out. None keeps all.
        min_frequency: how often a word must occur.

    Raises:
        TypeError: one text in place of several: its letters would be taken for texts.
        ValueError: no word at all, or a limit that leaves none.
    """
    if isinstance(texts, str):
        raise TypeError("texts is one string; expected a list of questions and answers, such as [text]")
    if vocab_size is not None and vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(f"vocab_size is {vocab_size}; it must be above {len(SPECIAL_TOKENS)}, the special tokens")
    trainer = WordLevelTrainer(
        vocab_size=vocab_size or sys.maxsize, min_frequency=min_frequency, special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )  # fmt: skip
    tokenizer = _word_level({})
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
        raise ValueError(
            f"the texts hold no word that occurs at least {min_frequency} times: pass the dataset's questions and "
            "answers, or a lower min_frequency"
        )
    return _wrap(tokenizer)


def load_vocabulary(path: str | Path) -> PreTrainedTokenizerFast:
    """Build the tokenizer of a released vocabulary file, one token a line, the line's number its id.

    Texts are cut into wordpunct's words and looked up as they stand: nothing is put into lower case. A file without
    [BOS] and [EOS], as the release's script writes it, gets them behind the other special tokens, as ids 5 and 6.

    Raises:
        ValueError: a token occurs twice, or a special token is not where the released model expects it.
    """
    # Not splitlines(): a token may be or hold a character that counts as a line's end elsewhere, such as U+2028.
    text = Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n")
    tokens = text.removesuffix("\n").split("\n")
    twice = sorted({token for token in tokens if tokens.count(token) > 1}) if len(set(tokens)) < len(tokens) else []
    if twice:
        raise ValueError(f"{path} lists tokens twice: {twice[:5]}; each line must be a token of its own")
    first = len(SPECIAL_TOKENS) - 2
    if tuple(tokens[:first]) == SPECIAL_TOKENS[:first] and not {"[BOS]", "[EOS]"} & set(tokens):
        tokens[first:first] = SPECIAL_TOKENS[first:]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    wrong = {token: vocabulary.get(token) for i, token in enumerate(SPECIAL_TOKENS) if vocabulary.get(token) != i}
    if wrong:
        raise ValueError(f"{path} has {wrong} as ids of special tokens; expected lines 1 to 7 to be {SPECIAL_TOKENS}")
    return _wrap(_word_level(vocabulary))


def _word_level(vocabulary: dict[str, int]) -> Tokenizer:
    """Words of texts as they stand."""
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)
    return tokenizer


def _wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token", "bos_token", "eos_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **dict(zip(names, SPECIAL_TOKENS, strict=True))
    )
