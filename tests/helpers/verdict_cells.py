"""Draws table cells with a known verdict in the notations of laboratories, for tests of `normality.judge`.

Each kind of cell first draws numbers and their meaning, and only then their notation. `Cell.verdict` is None where a
physician could not decide, such as groups that disagree for an unknown patient.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, NORMAL

WIDE = str.maketrans("0123456789.<>-%:()", "０１２３４５６７８９．＜＞－％：（）")
DASHES = ("-", "-", "-", "--", "~", "～", "—", "–", " - ", "至")
UNITS = (
    "mmol/L",
    "g/L",
    "U/L",
    "μg/ml",
    "ng/mL",
    "10^9/L",
    "×10^9/L",
    "10*9/L",
    "秒",
    "mg/24h",
    "/HP",
    "mL/min/1.73m2",
)


@dataclass(frozen=True)
class Cell:
    kind: str
    result: str
    reference: str
    verdict: str | None
    flag: str = ""
    unit: str = ""
    page: tuple[tuple[str, str], ...] = field(default=())


def draw_cells(count: int, seed: int) -> Iterator[Cell]:
    """Yield `count` cells, the kinds in turn."""
    rng = random.Random(seed)
    for number in range(count):
        yield KINDS[number % len(KINDS)](rng)


def _number(rng: random.Random, low: float, high: float, digits: int) -> float:
    return round(rng.uniform(low, high), digits)


def _bounds(rng: random.Random) -> tuple[float, float, int]:
    """A lower and an upper bound, and their number of decimals."""
    digits, scale = rng.choice((0, 0, 1, 1, 2)), rng.choice((1, 10, 100, 1000))
    low = _number(rng, 0.2 * scale, 2 * scale, digits)
    step = 10.0**-digits
    return low, round(max(low + 4 * step, low * rng.uniform(1.3, 4)), digits), digits


def _value(rng: random.Random, low: float, high: float, digits: int) -> float:
    """A value below, in, above, or on the border of an interval."""
    step = 10.0**-digits
    choices = (
        low,
        high,
        low - step,
        high + step,
        (low + high) / 2,
        low * 0.6,
        high * 1.5,
        _number(rng, low, high, digits),
    )
    return max(0.0, round(rng.choice(choices), digits))


def _compare(value: float, low: float, high: float) -> str:
    return LOW if value < low else HIGH if value > high else NORMAL


def _write(rng: random.Random, value: float, digits: int, scientific: bool = False) -> str:
    text = f"{value:.{digits}f}"
    notation = rng.random()
    if scientific and notation < 0.3 and value >= 10:
        return _scientific(value, digits)
    if notation < 0.1 and value >= 1000:
        return f"{value:,.{digits}f}"
    return text


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = value, 0
    while mantissa >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    return f"{mantissa:.{exponent + digits}f}E+{exponent:02d}"


def _spread(rng: random.Random, *texts: str) -> tuple[str, ...]:
    """The texts, sometimes in full width."""
    return tuple(text.translate(WIDE) for text in texts) if rng.random() < 0.15 else texts


def _interval(rng: random.Random, low: float, high: float, digits: int) -> str:
    return f"{low:.{digits}f}{rng.choice(DASHES)}{high:.{digits}f}"


def _plain(rng: random.Random) -> Cell:
    low, high, digits = _bounds(rng)
    value = _value(rng, low, high, digits)
    truth, unit = _compare(value, low, high), rng.choice(UNITS)
    result, reference = _spread(rng, _write(rng, value, digits, True), _interval(rng, low, high, digits))
    where = rng.choice(("none", "range", "column", "both", "result"))
    if where in ("range", "both"):
        reference += rng.choice((" ", "" if unit[0] not in "0123456789" else " ")) + unit
    if where in ("both", "result") and "E+" not in result and unit[0] not in "0123456789":
        result += rng.choice(("", " ")) + unit
        truth = None if where == "result" and "10^" in unit else truth
    return Cell("interval", result, reference, truth, unit=unit if where == "column" else "")


def _one_sided(rng: random.Random) -> Cell:
    _, bound, digits = _bounds(rng)
    step = 10.0**-digits
    value = max(0.0, round(rng.choice((bound, bound - step, bound + step, bound * 0.5, bound * 2)), digits))
    sign = rng.choice(("<", "≤", ">", "≥", "<=", ">=", "小于", "大于", "不超过", "不低于", "＜", "＞"))
    upper = sign in ("<", "≤", "<=", "小于", "不超过", "＜")
    is_open = sign in ("<", ">", "小于", "大于", "＜", "＞")
    inside = (value < bound if is_open else value <= bound) if upper else (value > bound if is_open else value >= bound)
    truth = NORMAL if inside else HIGH if upper else LOW
    unit = rng.choice(("", "", *UNITS))
    reference = f"{sign}{bound:.{digits}f}" + (f" {unit}" if unit else "")
    result, reference = _spread(rng, _write(rng, value, digits, True), reference)
    return Cell("one-sided", result, reference, truth)


def _censored(rng: random.Random) -> Cell:
    """A result such as <0.01."""
    low, high, digits = _bounds(rng)
    low = rng.choice((0.0, low))
    limit = round(rng.choice((low, low / 2, high, high * 2, (low + high) / 2)), digits)
    limit = max(limit, 10.0**-digits)
    below = rng.random() < 0.5
    if below:
        truth = NORMAL if low == 0 and limit <= high else LOW if limit <= low and low > 0 else None
    else:
        truth = HIGH if limit >= high else None
    return Cell("censored", f"{'<' if below else '>'}{limit:.{digits}f}", _interval(rng, low, high, digits), truth)


def _percent(rng: random.Random) -> Cell:
    """A share as per cent or fraction on either side, with closed and open ranges."""
    low, high = sorted((rng.uniform(0.01, 0.95), rng.uniform(0.01, 0.95)))
    low, high = round(low, 2), round(max(high, low + 0.05), 2)
    value = rng.choice((low, high, round(rng.uniform(low, high), 3), low * 0.5, high * 1.3, low - 0.01, high + 0.01))
    value = min(max(round(value, 3), 0.001), 1.2 if low > 0.4 else 1.0)
    shape = rng.choice(("closed", "<", "≤", ">", "≥"))
    truth = {"closed": _compare(value, low, high), "<": NORMAL if value < high else HIGH}.get(shape)
    truth = truth or {"≤": NORMAL if value <= high else HIGH, ">": NORMAL if value > low else LOW}.get(shape)
    truth = truth or (NORMAL if value >= low else LOW)

    def write(number: float, style: str) -> str:
        return f"{100 * number:.1f}{'%' if style == '%' else ''}" if style in ("%", "bare %") else f"{number:.3f}"

    ours, theirs, unit = rng.choice(
        (("%", "%", ""), ("%", "1", ""), ("1", "%", ""), ("1", "1", ""), ("bare %", "bare %", "%"), ("bare %", "%", ""))
    )
    edge = {"closed": None, "<": high, "≤": high, ">": low, "≥": low}[shape]
    if edge is None:
        first = write(low, theirs) if rng.random() < 0.5 else write(low, theirs).rstrip("%")
        reference = f"{first}{rng.choice(DASHES)}{write(high, theirs)}"
    else:
        reference = shape + write(edge, theirs)
    return Cell(f"percent {ours} {theirs}", *_spread(rng, write(value, ours), reference), truth, unit=unit)


def _arrow(rng: random.Random) -> Cell:
    """An arrow or a word beside the result, in the column of flags, or none; sometimes it contradicts the numbers."""
    low, high, digits = _bounds(rng)
    value = _value(rng, low, high, digits)
    truth = _compare(value, low, high)
    mark, means = rng.choice(
        (("↑", HIGH), ("↓", LOW), ("H", HIGH), ("偏高", HIGH), ("偏低", LOW), ("高", HIGH), ("低", LOW))
    )
    text, reference = f"{value:.{digits}f}", _interval(rng, low, high, digits)
    verdict = truth if means == truth else None
    if rng.random() < 0.5:
        return Cell("flag", text, reference, verdict, flag=mark)
    return Cell("arrow", rng.choice((f"{text} {mark}", f"{text}{mark}")), reference, verdict)


def _word_behind_limit(rng: random.Random) -> Cell:
    """A word behind the only limit of a range cell says what those beyond it are: it is not a printed arrow."""
    _, bound, digits = _bounds(rng)
    value = _value(rng, bound, bound, digits)
    word, means = rng.choice(
        (
            ("偏高", HIGH),
            ("升高", HIGH),
            ("高", HIGH),
            ("H", HIGH),
            ("↑", HIGH),
            ("偏低", LOW),
            ("低", LOW),
            ("L", LOW),
            ("降低", LOW),
        )
    )
    sign = ">" if means == HIGH else "<"
    inside = value > bound if sign == ">" else value < bound
    gap = rng.choice(("", " ", "(", "为", ":"))
    reference = f"{sign}{bound:.{digits}f}{gap}{word}" + (")" if gap == "(" else "")
    return Cell("word behind limit", f"{value:.{digits}f}", reference, means if inside else None)


GROUPS: tuple[tuple[str, str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]], ...] = (
    ("男", "女", (("性别", "男"),), (("性别", "女"),)),
    ("男性", "女性", (("性别", "男"), ("年龄", "44岁")), (("性别", "女"), ("年龄", "31岁"))),
    ("成人", "儿童", (("年龄", "45岁"),), (("年龄", "6岁"),)),
    ("<40岁", "≥40岁", (("年龄", "33岁"),), (("年龄", "61岁"),)),
    ("18-60岁", ">60岁", (("年龄", "33岁"),), (("年龄", "71岁"),)),
    ("卵泡期", "黄体期", (("性别", "女"), ("月经周期", "卵泡期")), (("性别", "女"), ("月经周期", "黄体期"))),
    ("绝经前", "绝经后", (("性别", "女"), ("月经状况", "未绝经")), (("性别", "女"), ("月经状况", "绝经"))),
    ("非孕", "孕早期", (), (("性别", "女"), ("临床诊断", "妊娠9周"))),
    ("空腹", "餐后2小时", (), ()),
    ("健康人群", "高危人群", (), ()),
)


def _groups(rng: random.Random) -> Cell:
    first, second, page_one, page_two = rng.choice(GROUPS)
    low, high, digits = _bounds(rng)
    shift = rng.choice((1.0, 1.2, 1.6, 2.5))
    other = (round(low * shift, digits), round(high * shift, digits))
    value = _value(rng, rng.choice((low, other[0])), rng.choice((high, other[1])), digits)
    verdicts = (_compare(value, low, high), _compare(value, *other))
    page = rng.choice(((), page_one, page_two))
    truth = verdicts[0] if verdicts[0] == verdicts[1] else None
    if page and page == page_one:
        truth = verdicts[0]
    elif page and page == page_two:
        truth = verdicts[1]
    style = rng.choice(
        ("{0}:{1} {2}:{3}", "{0}：{1}；{2}：{3}", "{1}({0}) {3}({2})", "{0} {1} {2} {3}", "({0}){1} ({2}){3}")
    )
    one, two = (_interval(rng, *pair, digits) for pair in ((low, high), other))
    return Cell("groups", f"{value:.{digits}f}", style.format(first, one, second, two), truth, page=page)


def _titre(rng: random.Random) -> Cell:
    limit, value = (10 * 2 ** rng.randint(0, 6) for _ in range(2))
    style = rng.choice(("<1:{}", "≤1:{}", "阴性(<1:{})", "<1：{}"))
    inside = value <= limit if "≤" in style else value < limit
    return Cell("titre", rng.choice(("1:{}", "1：{}")).format(value), style.format(limit), NORMAL if inside else HIGH)


def _plus(rng: random.Random) -> Cell:
    positive = rng.choice(("+", "++", "+++", "1+", "2+", "3+", "阳性", "阳性(+)", "弱阳性", "+1", "(+)", "阳性(2+)"))
    negative = rng.choice(("-", "阴性", "阴性(-)", "(-)", "Neg", "未检出"))
    between = rng.choice(("±", "+-", "可疑"))
    result, truth = rng.choice(((positive, ABNORMAL), (negative, NORMAL), (between, None)))
    reference = rng.choice(("阴性", "阴性(-)", "(-)", "Negative", "阴性（-）"))
    return Cell("plus", result, reference, truth)


def _lipid(rng: random.Random) -> Cell:
    """Labelled limits, as for lipids, glucose and vitamins."""
    a = round(rng.uniform(1, 20), 1)
    b = round(a * rng.uniform(1.2, 2), 1)
    value = round(rng.choice((a, b, a - 0.1, a + 0.1, b - 0.1, b + 0.1, a / 2, b * 2)), 1)
    below = NORMAL if value < a else HIGH
    above = NORMAL if value >= b else LOW
    ended = NORMAL if a <= value <= b else HIGH if value > b else LOW
    cells = (
        (f"合适水平:<{a} 边缘升高:{a}-{b} 升高:≥{b}", below if value != b else HIGH),
        (f"理想:<{a} 边缘升高:{a}-{b} 升高:>{b}", below),
        (f"<{a}合适 {a}-{b}边缘升高 ≥{b}升高", below),
        (f"<{a}(理想范围) {a}-{b}(边缘升高) >{b}(升高)", below),
        (f"正常:<{a} 糖尿病前期:{a}-{b} 糖尿病:≥{b}", below),
        (f"缺乏:<{a} 不足:{a}-{b} 充足:≥{b}", above),
        (f"<{a}缺乏;{a}-{b}不足;≥{b}充足", above),
        (f"偏低:<{a} 正常:{a}-{b} 偏高:>{b}", ended),
        (f"<{a}降低,{a}-{b}正常,>{b}升高", ended),
        (f"低危:<{b} 高危:<{a}", HIGH if value >= b else NORMAL if value < a else None),
        (f"阴性:<{a} 可疑:{a}-{b} 阳性:>{b}", NORMAL if value < a else HIGH if value > b else None),
        (f"阴性<{a}", NORMAL if value < a else HIGH),
        (f"<{a}为阴性", NORMAL if value < a else HIGH),
        (f"阳性:≥{a}", HIGH if value >= a else None),
    )
    return Cell("labelled", f"{value}", *rng.choice(cells))


def _signal(rng: random.Random) -> Cell:
    """A number with its meaning behind it: 0.35(阴性)."""
    limit = rng.choice((1.0, 1.1, 0.9, 10.0))
    value = round(limit * rng.choice((0.3, 0.9, 1.2, 5)), 2)
    truth = NORMAL if value < limit else HIGH
    word = "阴性" if truth == NORMAL else "阳性"
    result = rng.choice((f"{value}({word})", f"{value} {word}", f"{value}"))
    return Cell("signal", result, rng.choice((f"<{limit}", f"<{limit}(阴性)", f"阴性:<{limit} 阳性:≥{limit}")), truth)


def _power(rng: random.Random) -> Cell:
    """A count with its own power of ten against a limit with another notation."""
    exponent, mantissa = rng.randint(2, 6), round(rng.uniform(1, 9.9), 2)
    limit_mantissa, limit_exponent = round(rng.uniform(1, 9.9), 1), rng.randint(2, 6)
    value, limit = mantissa * 10**exponent, limit_mantissa * 10**limit_exponent
    truth = NORMAL if value < limit else HIGH
    result = rng.choice((f"{mantissa:.2f}E+{exponent:02d}", f"{mantissa:.2f}×10^{exponent}", f"{value:.0f}"))
    reference = rng.choice(
        (f"<{limit_mantissa}E+{limit_exponent:02d}", f"<{limit_mantissa}×10^{limit_exponent}", f"<{limit:.0f}")
    )
    unit = rng.choice(("", "IU/mL", "copies/mL"))
    return Cell("power", result + rng.choice(("", unit)), reference + unit, truth)


KINDS: tuple[Callable[[random.Random], Cell], ...] = (
    _plain, _plain, _one_sided, _censored, _percent, _percent, _arrow, _word_behind_limit, _groups, _groups, _titre,
    _plus, _lipid, _lipid, _signal, _power,
)  # fmt: skip
