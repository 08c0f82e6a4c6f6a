"""RJUA-MedDQA's released scoring, written again for the tests from what is known of its rules and slips.

Soft accuracy by task and type; ROUGE-L as the package `rouge` counts it: sentences at ".", words between white space,
different words only, the union of longest common subsequences over sentences.
"""

SIGNS = [
    *(("，", ","), ("。", "."), ("！", "!"), ("？", "?"), ("：", ":"), ("；", ";"), ("（", "("), ("）", ")")),
    *(("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"), ("【", "["), ("】", "]")),
    *(("～", "-"), ("~", "-"), ("—", "-"), ("…", "...")),
]


def clean(text: str) -> str:
    for sign, plain in SIGNS:
        text = plain.join(text.split(sign))
    return text


def soft_accuracy(prediction: str, answer: str, answer_type: str) -> float:
    said, right = clean(prediction), clean(answer)
    if answer_type.startswith("multi") and answer_type != "multi_nr":
        first, *others = right.split(";")
        score = 0.5 if said.find(first) >= 0 else 0.0
        if others and said.find(others[0]) >= 0:
            score += 0.5
        return score
    if answer_type == "multi_nr":
        if right.find("无异常结果") >= 0:
            return 1.0 if "无" in said and "无法判断" not in said else 0.0
        found = [part for part in right.split(";") if said.find(part) >= 0]
        return len(found) / len(right.split(";"))
    if answer_type == "MC" and said.replace(";;", "").count(";") >= 2:
        return 0.0
    return 1.0 if said.find(right) >= 0 else 0.0


def rouge_l(prediction: str, answer: str) -> float:
    said, right = ([" ".join(part.split()) for part in clean(text).split(".") if part] for text in (prediction, answer))
    union = set()
    for sentence in right:
        for other in said:
            union |= set(_subsequence(tuple(sentence.split(" ")), tuple(other.split(" "))))
    words = [len({word for sentence in text for word in sentence.split(" ")}) for text in (said, right)]
    precision, recall = len(union) / words[0], len(union) / words[1]
    return 2.0 * ((precision * recall) / (precision + recall + 1e-8))


def _subsequence(one: tuple[str, ...], other: tuple[str, ...]) -> list[str]:
    """By recursion with memory; where both ways are as long, the last word of `other` goes."""
    memory: dict[tuple[int, int], int] = {}

    def length(i: int, j: int) -> int:
        if not i or not j:
            return 0
        if (i, j) not in memory:
            same = one[i - 1] == other[j - 1]
            memory[i, j] = length(i - 1, j - 1) + 1 if same else max(length(i - 1, j), length(i, j - 1))
        return memory[i, j]

    def words(i: int, j: int) -> list[str]:
        if not i or not j:
            return []
        if one[i - 1] == other[j - 1]:
            return [*words(i - 1, j - 1), one[i - 1]]
        return words(i - 1, j) if length(i - 1, j) > length(i, j - 1) else words(i, j - 1)

    return words(len(one), len(other))
