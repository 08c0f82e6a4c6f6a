"""A small folder of invented RJUA-MedDQA data for the tests: two laboratory reports and a clinical one."""

import csv
import io
import json
from pathlib import Path

import PIL.Image

from rjua_meddqa.released import write_annotations
from rjua_meddqa.schema import Annotation, TableRow

BLOOD = Annotation(
    idx="1",
    img_path="blood.png",
    key_values=(("姓名", "无"), ("性别", "女"), ("年龄", "41岁"), ("临床诊断", "")),
    table=(
        TableRow("钾(K)", "3.1", "3.5-5.3mmol/L", "否(偏低)"),
        TableRow("钠(Na)", "140", "137-147mmol/L", "是"),
        TableRow("比值", "0.3", "无", "无法判断"),
    ),
    report_type="Laboratory",
    image_type="photo",
    image_quality="low",
)
NORMAL = Annotation(
    idx="2",
    img_path="normal.png",
    key_values=(("标本种类", "血清"),),
    table=(TableRow("尿素", "5.0", "3.1-8.0mmol/L", "是"), TableRow("肌酐", "70", "57-97μmol/L", "是)")),
    report_type=" Laboratory",
    image_type="pdf",
    image_quality="high",
)
SCAN = Annotation(
    idx="3",
    img_path="scan.png",
    key_values=(("检查部位", "盆腔"), ("放射学诊断", "膀胱壁增厚;请结合{病史}。")),
    table=(),
    report_type="MRI",
    image_type="screenshot",
    image_quality="high",
)
ANNOTATIONS = (BLOOD, NORMAL, SCAN)

CONTEXT_ROWS = (
    ("1", "低钾血症", "检查-疾病", "钾低于3.5"),
    ("2", "低钠血症", "检查-疾病", "钠低于137"),
    ("3", "低钙血症", "检查-疾病", "钙低于2.1"),
    ("4", "高钾血症", "检查-疾病", "钾高于5.3"),
    ("5", "肾结石", "检查-疾病", "见高密度影"),
    ("6", "低钾血症", "疾病-建议", "补钾"),
    ("7", "低钠血症", "疾病-建议", "限水"),
)
CONTEXT_HEADER = ("idx", "title", "context_type", "description")


def context_cells(rows=CONTEXT_ROWS, header=CONTEXT_HEADER) -> list[tuple[str, dict[str, str]]]:
    """Rows as `read_cells` gives them."""
    return [(f"row {number}", dict(zip(header, row, strict=True))) for number, row in enumerate(rows, start=1)]


def write_contexts(path: Path, rows=CONTEXT_ROWS, header=CONTEXT_HEADER) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    path.write_text(text.getvalue(), encoding="utf-8")


def write_folder(root: Path, governance: str | None = "open") -> Path:
    """The annotations, contexts and images; without questions and, if `governance` is None, without a manifest."""
    (root / "images").mkdir(parents=True)
    for annotation in ANNOTATIONS:
        PIL.Image.new("RGB", (30, 20), "white").save(root / "images" / annotation.img_path)
    write_annotations(ANNOTATIONS, root / "annotations.csv")
    write_contexts(root / "contexts.csv")
    if governance is not None:
        manifest = {"kind": "meddqa", "governance": governance, "source": "a test"}
        (root / "manifest.json").write_text(json.dumps(manifest))
    return root
