"""Errors planted into true annotations, one kind at a time, and how many of them the quality check finds.

A finding counts as found when it is about the place where the error was planted. Every other finding in an altered
annotation is a false alarm, including those that the unaltered annotation also has.
"""

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rjua_meddqa.annotation.checking import check_annotations
from rjua_meddqa.annotation.page_check import PageText
from rjua_meddqa.answers import is_missing
from rjua_meddqa.schema import HIGH, LOW, MISSING, NORMAL, UNDECIDED, Annotation, TableRow

Plant = Callable[[Annotation, random.Random], "tuple[Annotation, str, str] | None"]


@dataclass
class Tally:
    """Errors that were planted and found, and findings about anything else."""

    planted: int = 0
    found: int = 0
    false: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.planted + other.planted, self.found + other.found, self.false + other.false)

    @property
    def recall(self) -> float:
        return self.found / self.planted if self.planted else 0.0

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.false) if self.found else 0.0


def change_digit(text: str, draw: random.Random) -> str:
    """`text` with one of its digits replaced."""
    place = draw.choice([match.start() for match in re.finditer(r"\d", text)])
    return text[:place] + draw.choice([d for d in "0123456789" if d != text[place]]) + text[place + 1 :]


def _in_value(annotation: Annotation, draw: random.Random, fits: Callable[[str], bool], change: Callable):
    places = [n for n, (_, value) in enumerate(annotation.key_values) if not is_missing(value) and fits(value)]
    if not places:
        return None
    place = draw.choice(places)
    values = list(annotation.key_values)
    values[place] = (values[place][0], change(values[place][1], draw))
    return replace(annotation, key_values=tuple(values)), f"kv {place + 1}", values[place][0]


def _in_row(annotation: Annotation, draw: random.Random, fits: Callable[[TableRow], bool], change: Callable):
    places = [n for n, row in enumerate(annotation.table) if fits(row)]
    if not places:
        return None
    place = draw.choice(places)
    table = list(annotation.table)
    table[place] = change(table[place], draw)
    return replace(annotation, table=tuple(table)), f"table row {place + 1}", table[place].item


def _is_date(value: str) -> bool:
    return re.match(r"\d{4}-\d\d-\d\d", value) is not None


def wrong_date(annotation, draw):
    return _in_value(annotation, draw, _is_date, change_digit)


def wrong_number(annotation, draw):
    def fits(value):
        return not _is_date(value) and re.search(r"\d", value)

    return _in_value(annotation, draw, fits, change_digit)


WORDS = ("普外科", "肾内科", "儿科", "血清", "尿液", "男", "女", "肝功能", "高血压", "骨折")


def wrong_word(annotation, draw):
    def change(value, draw):
        return draw.choice([word for word in WORDS if word != value])

    return _in_value(annotation, draw, lambda value: not re.search(r"\d", value) and len(value) <= 8, change)


def lost_value(annotation, draw):
    return _in_value(annotation, draw, lambda value: len(value) <= 12, lambda value, draw: MISSING)


def wrong_result(annotation, draw):
    return _in_row(
        annotation,
        draw,
        lambda row: re.search(r"\d", row.result),
        lambda row, draw: replace(row, result=change_digit(row.result, draw)),
    )


def wrong_range(annotation, draw):
    def change(row, draw):
        match = re.search(r"\d+(?:\.\d+)?(?=$|[^\d.])", row.range)
        return replace(row, range=change_digit(row.range[: match.end()], draw) + row.range[match.end() :])

    return _in_row(annotation, draw, lambda row: re.search(r"\d", row.range), change)


def neighbours_result(annotation, draw):
    """The result of another row of the page."""
    results = [row.result for row in annotation.table]

    def change(row, draw):
        others = [result for result in results if result != row.result]
        return replace(row, result=draw.choice(others)) if others else row

    return _in_row(annotation, draw, lambda row: len(set(results)) > 1, change)


def wrong_verdict(annotation, draw):
    """The opposite verdict: a normal result becomes too high or too low, any other becomes normal."""
    return _in_row(
        annotation,
        draw,
        lambda row: row.is_normal != UNDECIDED,
        lambda row, draw: replace(row, is_normal=draw.choice((HIGH, LOW)) if row.is_normal == NORMAL else NORMAL),
    )


def invented_row(annotation, draw):
    rows = [TableRow("网织红细胞计数", "1.2", "0.5-1.5%", NORMAL), TableRow("淀粉酶(AMY)", "88", "35-135U/L", NORMAL)]
    if not annotation.table:
        return None
    return (
        replace(annotation, table=(*annotation.table, draw.choice(rows))),
        f"table row {len(annotation.table) + 1}",
        "",
    )


def lost_row(annotation, draw):
    """A row with a range is left out."""
    places = [n for n, row in enumerate(annotation.table) if re.search(r"\d", row.range)]
    if len(annotation.table) < 2 or not places:
        return None
    place = draw.choice(places)
    table = annotation.table[:place] + annotation.table[place + 1 :]
    return replace(annotation, table=table), "table", annotation.table[place].item


PLANTS: dict[str, Plant] = {
    "wrong date": wrong_date,
    "wrong number": wrong_number,
    "wrong word": wrong_word,
    "lost value": lost_value,
    "wrong result": wrong_result,
    "wrong range": wrong_range,
    "result of another row": neighbours_result,
    "wrong is_normal": wrong_verdict,
    "invented row": invented_row,
    "lost row": lost_row,
}


def measure_planted(pages: Iterable[tuple[Annotation, PageText]], seed: int = 0) -> dict[str, Tally]:
    """One error of each kind in every annotation that can have it, checked against its page."""
    tallies = {name: Tally() for name in PLANTS}
    for annotation, page in pages:
        for name, plant in PLANTS.items():
            planted = plant(annotation, random.Random(f"{seed} {annotation.img_path} {name}"))
            if planted is not None:
                tallies[name] += _check(planted, page)
    return tallies


def _check(planted: tuple[Annotation, str, str], page: PageText) -> Tally:
    annotation, where, what = planted
    findings = check_annotations([annotation], lambda _: page).findings
    about = [f for f in findings if f.where == where and (where != "table" or what[:4] in f.message)]
    return Tally(1, bool(about), len(findings) - len(about))
