"""Word-level tokenizers for SwinVED.

A token is a run of letters and digits or a run of punctuation (NLTK's wordpunct) in lower case. A text decodes to its
tokens joined by spaces. The first seven ids are the release's: [CLS] 0, [PAD] 1, [SEP] 2, [UNK] 3, [MASK] 4, [BOS] 5,
[EOS] 6. The other ids follow frequency.

The release lowercased the vocabulary but not the texts, so that capitalised words became [UNK]. `load_vocabulary` reads
a released vocabulary file and keeps that behaviour, which the released weights were trained with.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.trainers import WordLevelTrainer
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "[BOS]", "[EOS]")
# wordpunct's `\w+|[^\w\s]+` spelled out, because \w of the tokenizers library has marks but not "½" or "²".
WORDS = r"[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s\x1c-\x1f]+"


def train_tokenizer(
    texts: Iterable[str], vocab_size: int | None = None, min_frequency: int = 1
) -> PreTrainedTokenizerFast:
    """Train a tokenizer on questions and answers.

    Args:
        texts: questions and answers, read once.
        vocab_size: most tokens, including the seven special ones. The rarest words are dropped. None keeps all.
        min_frequency: how often a word must occur.

    Raises:
        TypeError: `texts` is a string.
        ValueError: no word is left.

    Examples:
        >>> tokenizer = train_tokenizer(["Is there an effusion?", "There is no effusion."])
        >>> tokenizer.decode(tokenizer("Is there no effusion?", add_special_tokens=False)["input_ids"])
        'is there no effusion ?'
    """
    if isinstance(texts, str):
        raise TypeError("texts is a string. Expected a list of questions and answers.")
    if vocab_size is not None and vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(f"vocab_size is {vocab_size}. It must exceed the {len(SPECIAL_TOKENS)} special tokens.")
    trainer = WordLevelTrainer(
        vocab_size=vocab_size or sys.maxsize, min_frequency=min_frequency, special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )  # fmt: skip
    tokenizer = _word_level({})
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
        raise ValueError(f"No word of the texts occurs at least {min_frequency} times. Lower min_frequency.")
    return _wrap(tokenizer)


def load_vocabulary(path: str | Path) -> PreTrainedTokenizerFast:
    """Build the tokenizer of a released vocabulary file, which has one token per line in the order of their ids.

    Texts are not lowercased. If the file has no [BOS] and [EOS], they get ids 5 and 6.

    Raises:
        ValueError: a token occurs twice, or a special token has another id than in the release.
    """
    # Not splitlines(), because a token may contain a character such as U+2028.
    text = Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n")
    tokens = text.removesuffix("\n").split("\n")
    twice = sorted({token for token in tokens if tokens.count(token) > 1}) if len(set(tokens)) < len(tokens) else []
    if twice:
        raise ValueError(f"{path} lists tokens twice: {twice[:5]}.")
    first = len(SPECIAL_TOKENS) - 2
    if tuple(tokens[:first]) == SPECIAL_TOKENS[:first] and not {"[BOS]", "[EOS]"} & set(tokens):
        tokens[first:first] = SPECIAL_TOKENS[first:]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    wrong = {token: vocabulary.get(token) for i, token in enumerate(SPECIAL_TOKENS) if vocabulary.get(token) != i}
    if wrong:
        raise ValueError(f"{path} has special tokens {wrong}. Expected {SPECIAL_TOKENS} in lines 1 to 7.")
    return _wrap(_word_level(vocabulary))


def _word_level(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)
    return tokenizer


def _wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token", "bos_token", "eos_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **dict(zip(names, SPECIAL_TOKENS, strict=True))
    )
