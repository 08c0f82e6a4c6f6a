"""Contents of synthetic laboratory reports: invented panels of items with units, ranges and plausible values.

A range is two numbers, an upper limit, a word, or nothing. Values lie clearly inside or clearly outside their range,
which makes `is_normal` exact.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, MISSING, NORMAL, UNDECIDED, TableRow

NEGATIVE, POSITIVE = "阴性", ("阳性(+)", "阳性(++)", "弱阳性")
OUTSIDE = 0.25  # share of items out of range


@dataclass(frozen=True)
class Item:
    """One laboratory item.

    Attributes:
        low, high: the range. If only `low` is None, it is an upper limit. If both are None, `expected` decides.
        expected: the word of a normal result, "" if the report prints no range.
        digits: decimals of results and limits.
        when_high, when_low: title of the context for a result out of range, "" for none.
    """

    name: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    digits: int = 1
    expected: str = ""
    when_high: str = ""
    when_low: str = ""

    def draw(self, draw: random.Random) -> TableRow:
        """Draw a row as annotators write it, with the unit in the range."""
        if self.high is None:
            return self._draw_word(draw)
        state = draw.choices((NORMAL, HIGH, LOW), (1 - OUTSIDE, OUTSIDE * 0.7, OUTSIDE * 0.3 * bool(self.low)))[0]
        low = self.low or 0.0
        span, step = self.high - low, 10**-self.digits
        if state == HIGH:
            value = self.high + max(2 * step, span * draw.uniform(0.15, 1.2))
        elif state == LOW:
            value = max(0.0, low - max(2 * step, low * draw.uniform(0.1, 0.5)))
        else:
            value = low + span * draw.uniform(0.1, 0.9)
        return TableRow(self.name, self.number(value), self.printed_range(), state)

    def _draw_word(self, draw: random.Random) -> TableRow:
        if not self.expected:
            return TableRow(self.name, self.number(draw.uniform(60, 120)), MISSING, UNDECIDED)
        if draw.random() < OUTSIDE:
            return TableRow(self.name, draw.choice(POSITIVE), self.expected, ABNORMAL)
        return TableRow(self.name, self.expected, self.expected, NORMAL)

    def number(self, value: float) -> str:
        """Format a value with this item's decimals."""
        return f"{value:.{self.digits}f}"

    def printed_range(self) -> str:
        """The range as annotators write it: limits and unit without a space."""
        if self.high is None:
            return self.expected or MISSING
        return (self.limits(self.low, self.high) if self.low is not None else f"<{self.high:g}") + self.unit

    def limits(self, low: float, high: float) -> str:
        """Format two limits with this item's decimals."""
        return f"{self.number(low)}-{self.number(high)}"

    def outcome(self, row: TableRow) -> str:
        """The title of the context for `row`, or ""."""
        return {HIGH: self.when_high, LOW: self.when_low}.get(row.is_normal, "")


WHOLES = {  # a sum of parts is at most its whole
    "总胆红素(TBIL)": ("直接胆红素(DBIL)",),
    "总蛋白(TP)": ("白蛋白(ALB)",),
    "总胆固醇(CHOL)": ("高密度脂蛋白胆固醇(HDL-C)", "低密度脂蛋白胆固醇(LDL-C)"),
    "总前列腺特异性抗原(TPSA)": ("游离前列腺特异性抗原(FPSA)",),
}
SHARES = ("中性粒细胞百分比", "淋巴细胞百分比", "单核细胞百分比")  # of all cells, at most 100 in total
PANELS: dict[str, tuple[Item, ...]] = {
    "血常规": (
        Item("白细胞计数(WBC)", "×10^9/L", 3.5, 9.5, 2, when_high="白细胞增多"),
        Item("红细胞计数(RBC)", "×10^12/L", 4.3, 5.8, 2),
        Item("血红蛋白(HGB)", "g/L", 130, 175, 0, when_low="轻度贫血"),
        Item("红细胞压积(HCT)", "%", 40, 50, 1),
        Item("血小板计数(PLT)", "×10^9/L", 125, 350, 0, when_high="血小板增高", when_low="血小板减低"),
        Item("中性粒细胞百分比", "%", 40, 75, 1),
        Item("淋巴细胞百分比", "%", 20, 50, 1),
        Item("单核细胞百分比", "%", 3, 10, 1),
        Item("平均红细胞体积", "fL", 82, 100, 1),
        Item("C反应蛋白(CRP)", "mg/L", None, 10, 1, when_high="炎症反应"),
    ),
    "肝功能": (
        Item("总胆红素(TBIL)", "μmol/L", 5.0, 21.0, 1, when_high="胆红素升高"),
        Item("直接胆红素(DBIL)", "μmol/L", 0.0, 6.8, 1),
        Item("丙氨酸氨基转移酶(ALT)", "U/L", 9, 50, 0, when_high="转氨酶升高"),
        Item("天门冬氨酸氨基转移酶(AST)", "U/L", 15, 40, 0),
        Item("碱性磷酸酶(ALP)", "U/L", 45, 125, 0),
        Item("总蛋白(TP)", "g/L", 65.0, 85.0, 1),
        Item("白蛋白(ALB)", "g/L", 40.0, 55.0, 1, when_low="白蛋白减低"),
        Item("白球比例(A/G)", "", 1.2, 2.4, 2),
        Item("乳酸脱氢酶(LDH)", "U/L", 120, 250, 0),
        Item("总胆汁酸(TBA)", "μmol/L", 0.0, 10.0, 1),
    ),
    "肾功能": (
        Item("尿素(UREA)", "mmol/L", 3.1, 8.0, 2, when_high="肾小球滤过减低"),
        Item("肌酐(CREA)", "μmol/L", 57, 97, 0, when_high="肾小球滤过减低"),
        Item("尿酸(UA)", "μmol/L", 208, 428, 0, when_high="尿酸升高"),
        Item("胱抑素C(CysC)", "mg/L", 0.55, 1.05, 2),
        Item("估算肾小球滤过率(eGFR)", digits=0),
        Item("钾(K)", "mmol/L", 3.5, 5.3, 2, when_low="血钾减低"),
        Item("钠(Na)", "mmol/L", 137, 147, 0, when_low="血钠减低"),
        Item("钙(Ca)", "mmol/L", 2.11, 2.52, 2),
        Item("葡萄糖(GLU)", "mmol/L", 3.9, 6.1, 2, when_high="空腹血糖升高"),
    ),
    "血脂": (
        Item("总胆固醇(CHOL)", "mmol/L", None, 5.2, 2, when_high="胆固醇升高"),
        Item("甘油三酯(TG)", "mmol/L", None, 1.7, 2, when_high="甘油三酯升高"),
        Item("高密度脂蛋白胆固醇(HDL-C)", "mmol/L", 1.03, 2.07, 2),
        Item("低密度脂蛋白胆固醇(LDL-C)", "mmol/L", None, 3.4, 2),
        Item("载脂蛋白A1(APOA1)", "g/L", 1.0, 1.6, 2),
        Item("载脂蛋白B(APOB)", "g/L", 0.55, 1.05, 2),
    ),
    "尿常规": (
        Item("酸碱度(PH)", "", 5.0, 8.0, 1),
        Item("尿比重(SG)", "", 1.003, 1.030, 3),
        Item("尿蛋白(PRO)", expected=NEGATIVE),
        Item("尿葡萄糖(GLU)", expected=NEGATIVE),
        Item("酮体(KET)", expected=NEGATIVE),
        Item("尿隐血(BLD)", expected=NEGATIVE),
        Item("亚硝酸盐(NIT)", expected=NEGATIVE),
        Item("尿白细胞计数", "/μL", 0, 25, 0, when_high="泌尿道感染"),
        Item("尿红细胞计数", "/μL", 0, 17, 0),
        Item("上皮细胞计数", "/μL", 0, 10, 0),
    ),
    "前列腺特异性抗原": (
        Item("总前列腺特异性抗原(TPSA)", "ng/mL", 0.0, 4.0, 2, when_high="前列腺抗原升高"),
        Item("游离前列腺特异性抗原(FPSA)", "ng/mL", 0.0, 0.93, 2),
        Item("前列腺健康指数(PHI)", digits=0),
        Item("癌胚抗原(CEA)", "ng/mL", 0.0, 5.0, 2, when_high="癌胚抗原升高"),
        Item("甲胎蛋白(AFP)", "ng/mL", 0.0, 7.0, 2),
        Item("铁蛋白(FER)", "ng/mL", 30.0, 400.0, 1),
    ),
    "凝血功能": (
        Item("凝血酶原时间(PT)", "秒", 11.0, 14.5, 1, when_high="凝血时间延长"),
        Item("国际标准化比率(INR)", "", 0.8, 1.2, 2),
        Item("部分凝血活酶时间(APTT)", "秒", 26.0, 40.0, 1),
        Item("凝血酶时间(TT)", "秒", 14.0, 21.0, 1),
        Item("纤维蛋白原(FIB)", "g/L", 2.0, 4.0, 2),
        Item("D-二聚体(DD)", "mg/L", None, 0.5, 2, when_high="高凝状态"),
        Item("抗凝血酶III(AT)", "%", 80, 120, 0),
    ),
}
SPECIMENS = {"血常规": "全血", "尿常规": "尿液", "凝血功能": "血浆"}
SERUM = "血清"  # specimen of the other panels


def draw_rows(items: Sequence[Item], draw: random.Random) -> list[TableRow]:
    """Draw a row for each item, again until no part is more than its whole."""
    while True:
        rows = [item.draw(draw) for item in items]
        if _is_possible(rows):
            return rows


def _is_possible(rows: Sequence[TableRow]) -> bool:
    results = {row.item: row.result for row in rows}
    sums = [(float(results[whole]), parts) for whole, parts in WHOLES.items() if whole in results]
    return all(sum(float(results.get(part, 0)) for part in parts) <= whole for whole, parts in [*sums, (100.0, SHARES)])
