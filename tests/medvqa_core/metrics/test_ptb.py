"""The Penn Treebank tokeniser: known cases, and the Java program itself on random texts where it is present."""

import csv
import random
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from medvqa_core.metrics.ptb_tokenizer import REACH, tokenize

# what pycocoevalcap 1.2 leaves in a text after its own tokeniser
DROPPED = {"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", ""}


def find_java_tokeniser() -> list[str] | None:
    spec = find_spec("pycocoevalcap")
    java = shutil.which("java")
    if not spec or not spec.submodule_search_locations or not java:
        return None
    jar = Path(spec.submodule_search_locations[0], "tokenizer", "stanford-corenlp-3.4.1.jar")
    command = [java, "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    return command if jar.is_file() else None


JAVA = find_java_tokeniser()
needs_java = pytest.mark.skipif(JAVA is None, reason="Java or pycocoevalcap is not installed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No pleural effusion, or pneumothorax.", "no pleural effusion or pneumothorax"),
        ("The patient's lungs aren't clear; can't say.", "the patient 's lungs are n't clear ca n't say"),
        ("Cannot exclude; they'll see.", "can not exclude they 'll see"),
        ("left-sided, 3.5cm and 2-3 mm (5%)", "left-sided 3.5 cm and 2-3 mm -lrb- 5 % -rrb-"),
        ("AP/lateral view, e.g. T12. vs. PA.", "ap/lateral view e.g. t12 vs. pa."),
        ("Dr. Doe saw No. 5 at 3:30 p.m.", "dr. doe saw no. 5 at 3:30 p.m."),
        ("vitamin K. The heart", "vitamin k the heart"),
        ("vitamin K. the heart", "vitamin k. the heart"),
        ("“no” ‘yes’ it’s … – ½ £5", "no yes it 's 1/2 # 5"),
        ("a 1 1/2 cm nodule", "a 1\xa01/2 cm nodule"),
        ("中文 naïve 😀 5µm", "中文 naïve 5µm"),
        ("5 &lt; 6 &amp; < 5 & >3", "5 < 6 & < 5 & > 3"),
        ("a.b@c.org, www.x.org/yz.", "a.b@c.org www.x.org/yz"),
        ("1-1/2 in 12/31/2001, O'Brien; the '90s", "1-1/2 in 12/31/2001 o'brien the '90s"),
        ("Size: 10 x 12.", "size 10 x 12"),
        ("", ""),
        (" \t\r\n", ""),
        ("... -- '' ; ?", ""),
        ("what ?!", "what ?!"),
        ("a <b>bold</b> word <br />", "a <b> bold </b> word <br\xa0/>"),
        ('<a href="x y">z</a><!-- no -->', '<a\xa0href="x\xa0y"> z </a> <!--\xa0no\xa0-->'),
        ("< b > <5 cm> <é> <a b=c> << >>", "< b > < 5 cm > < é > < a b = c > << >>"),
        ("one\u2028two\x85three\nfour", "one two three four"),
        ("### Findings\n#### a ## b # c ###1 (###)", "### findings #### a ## b # c ### 1 -lrb- ### -rrb-"),
    ],
)
def test_known_cases(text, expected):
    assert " ".join(tokenize(text)) == expected


def test_a_long_piece_without_white_space_is_read_to_its_end():
    assert tokenize("a," * 5000) == ["a"] * 5000
    assert "".join(tokenize("x" * 10_000)) == "x" * 10_000
    assert "".join(tokenize("7" * 10_000)) == "7" * 10_000
    # no rule looks further than REACH, so that time grows with the text and not with its square
    assert max(map(len, tokenize("7" * 10_000))) == REACH


def ask_java(texts: list[str], tmp_path: Path) -> list[list[str]]:
    """The tools' words of each text; a line `end` after each keeps one text's words from depending on the next."""
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\nend\n" for text in texts), encoding="utf-8", newline="")
    done = subprocess.run([*JAVA, str(path)], capture_output=True, check=True)
    lines = done.stdout.decode("utf-8").split("\n")[0 : 2 * len(texts) : 2]
    assert len(lines) == len(texts)
    return [[word for word in line.rstrip().split(" ") if word not in DROPPED] for line in lines]


TEXT = """
no pleural effusion heart normal opacity the is not of T12 L4-5 3.5 cm mm 12 x a can't patient's it's don't
cannot AP PA CT U.S. e.g. i.e. etc. Dr. vs. No. Fig. 5th 2-3 1,000 50% s/p and/or left-sided C-arm 1/2 A B The
In There 's n't Mr. O'Brien '90s w/o non-U.S. P.M. p.m. 10.5x3 T1. (no) [5] <5 >3 5-mm a_b a&b #3 $5
5$ °C ± ≥2 ### ## ###x a##
"""
WORDS = TEXT.split()
SIGNS = list('-/.,!?()[]"&+*_%~|') + ["–", "—", "…", "“", "”", "½", "é", "中", "µ"]


def report_like(draw: random.Random) -> str:
    words = []
    for _ in range(draw.randint(1, 14)):
        word = draw.choice(WORDS)
        kind = draw.random()
        if kind < 0.1:
            word = draw.choice([f"({word})", f'"{word}"', f"“{word}”"])
        elif kind < 0.2:
            word += draw.choice("-/") + draw.choice(WORDS)
        elif kind < 0.4:
            word += draw.choice(",.;:?!")
        elif kind < 0.45:
            word = draw.choice([str.upper, str.capitalize])(word)
        words.append(word)
    return " ".join(words) + draw.choice([".", "", "!"])


def ascii_noise(draw: random.Random) -> str:
    return "".join(draw.choice("aabntdsAB.,-+ 015 .-  )&") for _ in range(draw.randint(1, 20)))


def any_character(draw: random.Random) -> str:
    pool = [chr(draw.randint(0xA0, 0x24FF)), chr(draw.randint(0x3000, 0xD7FF)), chr(draw.randint(0xF900, 0xFFFF))]
    text = "".join(draw.choice([*pool, " ", "a", "5", ".", "-", "b "]) for _ in range(draw.randint(1, 8)))
    return text.translate({0x2028: None, 0x2029: None})


TAG_PIECES = (
    "<", "</", "<!", "<?", ">", " >", "/>", " />", "b", "br", "p1", "a.b", "x-y", "a:b", "  ", " ", "=", " = ", '"x y"',
    "'q'", "=v", "=5", "text", "no ", "3", "-", "!",
)  # fmt: skip


def tags(draw: random.Random) -> str:
    if draw.random() < 0.5:
        return "".join(draw.choice(TAG_PIECES) for _ in range(draw.randint(2, 9)))
    tag = draw.choice(["<", "</", "<", "<!", "<?", "< "]) + draw.choice(["b", "br", "a.x", "H1", "b_c", "x:y"])
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        tag += draw.choice([" ", "  ", ""]) + draw.choice(["c", "href", "d-e", "5"])
        tag += draw.choice(["", "=v", ' = "u v"', "='w'", "=5", "= "])
    return draw.choice(["", "no ", "x"]) + tag + draw.choice([">", " >", "/>", " / >", "> end", "x", ">."])


@needs_java
@pytest.mark.parametrize("make", [report_like, ascii_noise, any_character, tags])
def test_equals_java_on_random_texts(make, tmp_path):
    draw = random.Random(20240801)
    texts = [make(draw) for _ in range(3000)]
    expected = ask_java(texts, tmp_path)
    different = [(t, e, tokenize(t)) for t, e in zip(texts, expected, strict=True) if tokenize(t) != e]
    assert not different, different[:5]


@needs_java
def test_equals_java_on_real_reports(real_data, tmp_path):
    with (real_data / "iu_cxr" / "indiana_reports.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = sorted({" ".join(row[name].split()) for row in rows for name in ("findings", "impression")} - {""})
    expected = ask_java(texts, tmp_path)
    different = [(t, e, tokenize(t)) for t, e in zip(texts, expected, strict=True) if tokenize(t) != e]
    assert len(texts) > 1000
    assert not different, different[:5]
