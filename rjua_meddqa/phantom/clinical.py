"""Contents of synthetic clinical reports: invented sentences for descriptions and conclusions.

A finding is (sentence of the description, sentence of the conclusion, title of its context).
"""

import random
from dataclasses import dataclass

Finding = tuple[str, str, str]
ORGANS = ("肾", "输尿管", "膀胱", "前列腺")


@dataclass(frozen=True)
class Kind:
    """One kind of clinical report.

    Attributes:
        header: keys printed above the sections, with their possible values.
        description, conclusion: headings of the two sections.
        normal: sentences for descriptions without a finding about the same organ.
        findings: 1 to 3 of them are drawn.
    """

    report_type: str
    title: str
    header: dict[str, tuple[str, ...]]
    description: str
    conclusion: str
    normal: tuple[str, ...]
    findings: tuple[Finding, ...]

    def draw(self, draw: random.Random) -> tuple[str, str, list[str]]:
        """Draw a description, a conclusion and the titles of their contexts."""
        found = draw.sample(self.findings, draw.randint(1, min(3, len(self.findings))))
        ill = "".join(text for text, _, _ in found)
        normal = [text for text in self.normal if not any(organ in text and organ in ill for organ in ORGANS)]
        description = ill + "".join(draw.sample(normal, draw.randint(min(2, len(normal)), len(normal))))
        conclusion = "".join(f"{number}.{text}" for number, (_, text, _) in enumerate(found, start=1))
        return description, conclusion, [title for _, _, title in found if title]


KINDS: tuple[Kind, ...] = (
    Kind(
        "Ultrasound", "超声检查报告单",
        {"检查部位": ("泌尿系", "双肾、输尿管、膀胱、盆腔"), "检查方法": ("经腹超声", "彩色多普勒超声")},
        "超声所见", "超声提示",
        ("左肾形态大小正常。", "双侧输尿管未见扩张。", "膀胱充盈良好，内壁光滑。", "腹腔内未见明显游离液体。"),
        (
            ("右肾下盏见一枚强回声，大小约6mm，后方伴声影。", "右肾小结石。", "小结石处理"),
            ("左肾上极见一无回声区，大小约21×18mm，边界清。", "左肾囊肿。", "单纯囊肿处理"),
            ("前列腺大小约48×40×36mm，内腺增大，回声欠均匀。", "前列腺增生。", "前列腺增生处理"),
        ),
    ),
    Kind(
        "CT", "CT检查诊断报告书",
        {"检查部位": ("泌尿系平扫", "全腹部平扫"), "检查方法": ("螺旋CT平扫，层厚5mm", "平扫加三维重建")},
        "影像所见", "诊断意见",
        ("双肾形态、大小、位置正常。", "膀胱充盈可，壁未见增厚。", "腹膜后未见肿大淋巴结。", "扫及骨质未见破坏。"),
        (
            ("左侧输尿管中段见高密度影，长径约9mm，以上输尿管轻度扩张。", "左输尿管结石伴轻度积水。", "输尿管结石处理"),
            ("右肾见类圆形低密度影，直径约25mm，未见强化征象。", "右肾囊肿。", "单纯囊肿处理"),
            ("膀胱右侧壁见结节影突向腔内，约14mm。", "膀胱占位，建议膀胱镜检查。", "膀胱占位检查"),
        ),
    ),
    Kind(
        "MRI", "磁共振检查报告单",
        {"检查部位": ("前列腺平扫加增强", "盆腔平扫"), "检查方法": ("T1WI、T2WI、DWI及动态增强", "T2WI加弥散成像")},
        "放射学表现", "放射学诊断",
        ("双侧精囊腺信号对称。", "膀胱壁光整。", "盆腔内未见肿大淋巴结。", "盆腔内未见积液。"),
        (
            ("前列腺移行带增大，信号混杂，见多发结节。", "前列腺增生。", "前列腺增生处理"),
            ("前列腺左侧外周带见片状低信号，弥散受限，约11mm。", "左外周带异常，建议穿刺活检。", "外周带异常检查"),
        ),
    ),
    Kind(
        "Pathology", "病理检查报告单",
        {"标本名称": ("膀胱肿物",), "送检医院": ("本院",)},
        "肉眼所见", "病理诊断",
        ("组织切面灰白，质中。", "全部取材制片。", "标本已用福尔马林固定。"),
        (
            ("灰白碎组织一堆，大小共约2.0×1.5×0.6cm。", "低级别非浸润性尿路上皮肿瘤。", "尿路上皮肿瘤处理"),
            ("灰红黏膜组织两块，共约1.2×0.8×0.3cm。", "黏膜慢性炎，局灶腺性化生。", ""),
        ),
    ),
    Kind(
        "Pathology", "病理检查报告单",
        {"标本名称": ("前列腺穿刺组织",), "送检医院": ("本院", "协作医院")},
        "巨检", "病理诊断",
        ("组织全部取材制片。", "标本已用福尔马林固定。", "各条组织分瓶送检。"),
        (
            ("灰白条索状组织六条，长0.8至1.5cm。", "前列腺组织慢性炎，局灶腺体增生。", "前列腺增生处理"),
        ),
    ),
)  # fmt: skip
