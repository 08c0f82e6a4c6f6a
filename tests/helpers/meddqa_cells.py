"""Hand-written cells of laboratory tables with the verdict that they deserve: tests/rjua_meddqa/annotation/cells."""

from pathlib import Path
from typing import NamedTuple

from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.annotation.normality import Judgement, judge
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, NORMAL, UNDECIDED

VERDICTS = {"N": NORMAL, "H": HIGH, "L": LOW, "A": ABNORMAL, "U": UNDECIDED}
FOLDER = Path(__file__).parents[1] / "rjua_meddqa" / "annotation" / "cells"


class CellCase(NamedTuple):
    """Printed cells, what the page says of its patient, and the verdict."""

    result: str
    unit: str
    range: str
    sex: str
    age: str
    verdict: str

    def judged(self) -> Judgement:
        patient = read_patient([("性别", self.sex), ("年龄", self.age)])
        return judge(self.result, self.range, unit=self.unit, patient=patient)


def read_cases(name: str) -> list[CellCase]:
    """The cases of `developed.txt` or `kept_aside.txt`."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()[1:]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [CellCase(*line[:5], VERDICTS[line[5]]) for line in cells]


def read_second_cases() -> list[tuple[str, str, Judgement]]:
    """(line, expected letter, judgement) of `second_reader.txt`; a `?`: abnormal, or undecided."""
    found = []
    for line in (FOLDER / "second_reader.txt").read_text(encoding="utf-8").splitlines()[1:]:
        result, reference, unit, page, letter = (cell.strip() for cell in line.split(" | "))
        values = [tuple(entry.split("=")) for entry in page.split(",") if entry]
        found.append((line, letter, judge(result, reference, unit=unit, patient=read_patient(values))))
    return found
