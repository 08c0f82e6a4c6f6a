"""The content of a synthetic report, before it is laid out. It depends on its seed only."""

import random
from dataclasses import dataclass, field
from datetime import date, timedelta

from rjua_meddqa.phantom.clinical import KINDS
from rjua_meddqa.phantom.panels import PANELS, SERUM, SPECIMENS, draw_rows
from rjua_meddqa.schema import ADVICE, DISEASE, LABORATORY, MISSING, TableRow

HOSPITALS = ("仁安示范医院", "东湖示范医院", "清河示范医院", "云山示范医院")
LABORATORY_SHARE = 0.6
BLANK_SHARE = 0.35  # of the optional fields
TWO_PANELS_SHARE = 0.25  # of the laboratory reports with another panel for the same specimen
MEN_ONLY = ("前列腺", "精囊")  # organs of men
_DIAGNOSES = ("体检", "前列腺增生", "泌尿道结石", "血尿待查", "膀胱肿瘤", MISSING)
_FIRST_DAY, _DAYS = date(2021, 1, 1), 1000

_ITEM_WORDS = ("检验项目", "项目名称", "项目")
_RESULT_WORDS = ("结果", "检验结果", "测定结果")
_RANGE_WORDS = ("参考范围", "参考区间", "参考值")


@dataclass(frozen=True)
class Report:
    """The content of a page.

    Attributes:
        header: (key, value) above the body. The value 无 is not printed.
        sections: (heading, text) of a clinical report.
        footer: (key, value) below the body.
        units: the unit of each row of `table`, for pages with a unit column.
        words: headings of the columns item, result, range.
        findings: (task, title of a context).
    """

    hospital: str
    title: str
    report_type: str
    header: tuple[tuple[str, str], ...]
    sections: tuple[tuple[str, str], ...] = ()
    footer: tuple[tuple[str, str], ...] = ()
    table: tuple[TableRow, ...] = ()
    units: tuple[str, ...] = ()
    words: tuple[str, str, str] = ("项目", "结果", "参考范围")
    findings: tuple[tuple[str, str], ...] = field(default=())

    @property
    def key_values(self) -> tuple[tuple[str, str], ...]:
        """All key-value pairs from top to bottom."""
        return self.header + self.sections + self.footer


def draw_report(draw: random.Random) -> Report:
    """Draw a laboratory or a clinical report of an invented patient."""
    return draw_laboratory(draw) if draw.random() < LABORATORY_SHARE else draw_clinical(draw)


def draw_laboratory(draw: random.Random) -> Report:
    """Draw a report with a table of one or two panels."""
    names = [draw.choice(sorted(PANELS))]
    specimen = SPECIMENS.get(names[0], SERUM)
    others = [name for name in sorted(PANELS) if name not in names and SPECIMENS.get(name, SERUM) == specimen]
    if others and draw.random() < TWO_PANELS_SHARE:
        names.append(draw.choice(others))
    items = [item for name in names for item in PANELS[name]]
    rows = draw_rows(items, draw)
    diagnosis, sampled = draw.choice(_DIAGNOSES), _day(draw)
    header = [
        *_patient(draw, "".join((*names, diagnosis))),
        ("标本种类", specimen),
        ("检验目的", "+".join(names)),
        ("采样时间", str(sampled)),
        ("临床诊断", diagnosis),
    ]
    titles = dict.fromkeys(item.outcome(row) for item, row in zip(items, rows, strict=True))
    findings = [(task, title) for title in titles if title for task in (DISEASE, ADVICE)]
    return Report(
        draw.choice(HOSPITALS),
        "检验报告单",
        LABORATORY,
        tuple(header),
        footer=(("检验者", MISSING), ("审核者", MISSING), ("报告时间", str(sampled + timedelta(draw.randint(0, 2))))),
        table=tuple(rows),
        units=tuple(
            item.unit if row.range not in (MISSING, item.expected) else ""
            for item, row in zip(items, rows, strict=True)
        ),
        words=(draw.choice(_ITEM_WORDS), draw.choice(_RESULT_WORDS), draw.choice(_RANGE_WORDS)),
        findings=tuple(findings),
    )


def draw_clinical(draw: random.Random) -> Report:
    """Draw a report with a description and a conclusion."""
    kind = draw.choice(KINDS)
    description, conclusion, titles = kind.draw(draw)
    fields = [(key, draw.choice(values)) for key, values in kind.header.items()]
    header = [*_patient(draw, "".join((description, conclusion, *(value for _, value in fields)))), *fields]
    return Report(
        draw.choice(HOSPITALS),
        kind.title,
        kind.report_type,
        tuple(header),
        sections=((kind.description, description), (kind.conclusion, conclusion)),
        footer=(("报告医生", MISSING), ("报告日期", str(_day(draw)))),
        findings=tuple((ADVICE, title) for title in dict.fromkeys(titles)),
    )


def _patient(draw: random.Random, content: str) -> list[tuple[str, str]]:
    """Draw fields about a patient that fit `content`. The name is blank, as in the released reports."""
    department = draw.choice(("泌尿外科", "肾内科", "体检中心", "急诊科", "普外科"))
    maybe = [("床号", f"{draw.randint(1, 48)}床"), ("住院号", f"{draw.randint(100000, 999999)}")]
    fields = [
        ("姓名", MISSING),
        ("性别", "男" if any(word in content for word in MEN_ONLY) else draw.choice("男女")),
        ("年龄", f"{draw.randint(19, 88)}岁"),
        ("科别", department),
    ]
    return fields + [(key, MISSING if draw.random() < BLANK_SHARE else value) for key, value in maybe]


def _day(draw: random.Random) -> date:
    return _FIRST_DAY + timedelta(draw.randrange(_DAYS))
