"""Made-up predictions for the scoring tests: answers as the released files have them, and what models make of them."""

import random

ANSWERS = {
    "single_entity": [
        *("盆腔平扫,增强(三期)", "1.送检前列腺一个，附有双侧精囊。\n2.左侧2.5x2x1cm。", "2023-06-20", "无"),
        *("PCa Gleason 3+4=7", "泌尿外科。 血透门诊"),
    ],
    "single_span": [
        *("1.10", "0.75-1.2", "≤0.5μg/mlFEUmg/L", "0.00-4.00ng/mL", "缺乏：<20 不足：20-30"),
        *("1.5-7.4", "阴性(-)", "无"),
    ],
    "single_nr": ["正常", "异常", "无法判断"],
    "multi_entity": ["男;50岁", "前列腺;无", "1.左肾。2.右肾 结石;泌尿外科", "a;b;c"],
    "multi_span": ["1.10;0.75-1.2", "<0.01;1.5-7.4g/L", "5;6;7", "a;b;c;d", "1.5～7.4;…", "9.4;", "甲,1;乙、2"],
    "multi_nr": ["总胆固醇(CHOL);甘油三脂(TG)", "无异常结果", "尿酸(URIC)", "甲;乙;丙;丁", "甲;", "无异常结果。"],
    "MC": ["A.膀胱癌", "B.化疗，观察", "C.随访 3 月", "D.HIFU…"],
    "SA": ["穿刺检查", "随访观察。复查 PSA", "轻度贫血;血尿酸升高", "建议 复查 PSA. 建议 MRI"],
}  # fmt: skip
CHANGES = [
    lambda t, d: t,
    lambda t, d: f"答案是{t}。",
    lambda t, d: t.replace("-", d.choice(["~", "～", "—", "--", "－", "–"])),
    lambda t, d: t.replace(";", d.choice(["；", ";;", "、", ",", "; ", " ;"])),
    lambda t, d: t.replace(",", d.choice(["，", "、", ", "])),
    lambda t, d: t + d.choice([";;", ";", "；；", ";A.无;B", ";;;", " ", "…", "...", "。"]),
    lambda t, d: t.replace("<", "＜").replace(".", d.choice(["。", "．", ". ", " ."])),
    lambda t, d: t.replace("(", "（").replace(")", "）"),
    lambda t, d: t[: d.randint(1, len(t))],
    lambda t, d: ";".join(d.sample(t.split(";"), len(t.split(";")))),
    lambda t, d: " ".join(t) if d.random() < 0.5 else t.replace(" ", ""),
    lambda t, d: d.choice(["无", "无法判断", "全部正常", "没有", "A.x;B.y", "A.x;B.y;C.z", "甲 乙 甲. 乙 丙"]),
    lambda t, d: f"{t}.{d.choice(['复查 PSA', '观察 观察', t])}",
]


def cases(number: int = 1800, seed: int = 11) -> list[tuple[str, str, str]]:
    """(prediction, answer, answer type), the same for the same seed; no prediction is empty."""
    draw = random.Random(seed)
    made = []
    while len(made) < number:
        answer_type = draw.choice(sorted(ANSWERS))
        answer = draw.choice(ANSWERS[answer_type])
        prediction = draw.choice(CHANGES)(draw.choice(CHANGES)(answer, draw), draw)
        if prediction.replace(".", "").replace("。", "").replace("…", "").strip():
            made.append((prediction, answer, answer_type))
    return made
