"""Contents of hard pages: ranges by group, units in many spellings, similar items, long findings.

Verdicts are known by construction: a result lies clearly inside or outside the range of the patient's group. If the
page does not name the group (phases of the cycle), all groups decide together.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from rjua_meddqa.phantom.contents import CONTENTS
from rjua_meddqa.phantom.difficulties import LABORATORY_ONLY, Difficulty
from rjua_meddqa.phantom.panels import PANELS, SERUM, SPECIMENS, Item
from rjua_meddqa.phantom.report import Report, draw_clinical, draw_laboratory
from rjua_meddqa.schema import HIGH, LOW, MISSING, NORMAL, UNDECIDED, TableRow

POWER = "10^"
_POWERS = ("×10^{}/L", "10^{}/L", "10*{}/L", "*10^{}/L", "10E{}/L", "10~{}/L", "10{}/L", "x10*{}/L", "10⁹/L")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SIMILAR = tuple(Item(**item) for item in CONTENTS["similar"])
_PHASES = (("卵泡期", 1.0), ("排卵期", 1.7), ("黄体期", 0.6))
_UNLISTED = (("检测平台", "AU5800"), ("采样护士", "王某"), ("样本编码", "B20437"), ("就诊来源", "门诊三楼"))


def draw_hard_report(draw: random.Random, flags: Collection[Difficulty]) -> Report:
    """Draw a report with those of `flags` that concern its content."""
    if any(flag in LABORATORY_ONLY for flag in flags):
        report = _laboratory(draw, flags)
    elif Difficulty.SCAN in flags or Difficulty.PARAGRAPHS in flags:
        report = draw_clinical(draw)
    else:
        report = draw.choice((draw_clinical, draw_laboratory))(draw)
    if Difficulty.PARAGRAPHS in flags:
        report = _with_paragraphs(report, draw)
    if Difficulty.NO_COLON in flags:
        more = draw.sample(_UNLISTED, 2)
        report = replace(report, header=(*report.header, *more))
    return report


def join_unit(limits: str, unit: str) -> str:
    """Append a unit to a range as annotators do: directly, but with a space between two digits."""
    return limits + (" " if unit[:1].isdigit() and limits[-1:].isdigit() else "") + unit


def _laboratory(draw: random.Random, flags: Collection[Difficulty]) -> Report:
    report = draw_laboratory(draw)
    items = _items(report, draw, flags)
    sex = dict(report.header)["性别"]
    age = int(dict(report.header)["年龄"].removesuffix("岁"))
    rows, units = [], []
    for item in items:
        unit = _spell(item.unit, draw) if Difficulty.UNIT_COLUMN in flags else item.unit
        if Difficulty.GROUPS in flags and item.low is not None and draw.random() < 0.6:
            row = _row_by_group(item, unit, sex, age, draw)
        else:
            row = item.draw(draw)
            if row.range not in (MISSING, item.expected):
                row = replace(row, range=join_unit(row.range.removesuffix(item.unit), unit))
        rows.append(row)
        units.append(unit if row.range not in (MISSING, item.expected) else "")
    return replace(report, table=tuple(rows), units=tuple(units), findings=())


def _items(report: Report, draw: random.Random, flags: Collection[Difficulty]) -> Sequence[Item]:
    powers = PANELS["血常规"][: 5 if Difficulty.SIMILAR_ITEMS in flags else None]
    similar = draw.sample(SIMILAR, draw.randint(8, len(SIMILAR)))
    if Difficulty.UNIT_COLUMN in flags or Difficulty.SIMILAR_ITEMS in flags:
        return [
            *(powers if Difficulty.UNIT_COLUMN in flags else ()),
            *(similar if Difficulty.SIMILAR_ITEMS in flags else ()),
        ]
    if Difficulty.SIDE_BY_SIDE in flags:
        return [item for name in ("肝功能", "肾功能") for item in PANELS[name]]
    specimen = dict(report.header)["标本种类"]
    name = draw.choice([name for name in sorted(PANELS) if SPECIMENS.get(name, SERUM) == specimen])
    return PANELS[name]


def _spell(unit: str, draw: random.Random) -> str:
    """Respell a unit with a power of ten. Other units do not change."""
    if POWER not in unit:
        return unit
    exponent = unit.partition(POWER)[2].removesuffix("/L")
    spelling = draw.choice(_POWERS)
    return spelling.format(exponent) if "{" in spelling else f"10{exponent.translate(_SUPERSCRIPTS)}/L"


def _row_by_group(item: Item, unit: str, sex: str, age: int, draw: random.Random) -> TableRow:
    """Draw a row with one range per group, and a clear result for the patient's group."""
    low, high = item.low or 0.0, item.high or 1.0
    kind = draw.choice(("sex", "age", "phase"))
    if kind == "sex":
        other = (low * 0.8, high * 0.85)
        bounds = {"男": (low, high), "女": other}
        own = bounds[sex]
        form = draw.choice(("{}:{} {}:{}", "{}性{};{}性{}", "{}:{},{}:{}"))
        limits = form.format("男", item.limits(*bounds["男"]), "女", item.limits(*bounds["女"]))
    elif kind == "age":
        border = draw.choice((18, 40, 60))
        young, old = (low, high), (low * 1.1, high * 1.25)
        own = young if age < border else old
        form = draw.choice(("<{0}岁 {1} ≥{0}岁 {2}", "<{0}岁:{1};≥{0}岁:{2}", "0-{3}岁 {1} {0}-100岁 {2}"))
        limits = form.format(border, item.limits(*young), item.limits(*old), border - 1)
    else:
        own = None
        limits = " ".join(f"{name}:{item.limits(low * factor, high * factor)}" for name, factor in _PHASES)
    value, verdict = _draw_value(item, own, [(low * factor, high * factor) for _, factor in _PHASES], draw)
    return TableRow(item.name, item.number(value), join_unit(limits, unit), verdict)


def _draw_value(
    item: Item, own: tuple[float, float] | None, groups: Sequence[tuple[float, float]], draw: random.Random
) -> tuple[float, str]:
    """Draw a result and its verdict, by the patient's own range or, if that is unknown, by all `groups`."""
    bounds = own or (min(low for low, _ in groups), max(high for _, high in groups))
    state = draw.choice((NORMAL, HIGH, LOW)) if bounds[0] > 0 else draw.choice((NORMAL, HIGH))
    if state == HIGH:
        return bounds[1] * draw.uniform(1.2, 2.0), HIGH
    if state == LOW:
        return bounds[0] * draw.uniform(0.3, 0.8), LOW
    if own is not None:
        return bounds[0] + (bounds[1] - bounds[0]) * draw.uniform(0.2, 0.8), NORMAL
    low, high = max(low for low, _ in groups), min(high for _, high in groups)
    if low < high:
        return low + (high - low) * draw.uniform(0.2, 0.8), NORMAL
    return float(item.number((low + high) / 2)), UNDECIDED


def _with_paragraphs(report: Report, draw: random.Random) -> Report:
    """Replace the description by numbered paragraphs."""
    (heading, _), *others = report.sections
    chosen = draw.sample(CONTENTS["paragraphs"], draw.randint(3, 5))
    if any("前列腺" in text for text in chosen):
        report = replace(report, header=tuple((k, "男" if k == "性别" else v) for k, v in report.header))
    text = "\n".join(f"{number}.{text}" for number, text in enumerate(chosen, start=1))
    return replace(report, sections=((heading, text), *others), findings=())
