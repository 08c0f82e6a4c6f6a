"""Drafts from placed text: columns, wrapped cells, tables side by side, fields with and without colons, findings."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddqa_boxes import box, lines, page, right_box, turned

from rjua_meddqa.annotation.drafts import draft, draft_annotation
from rjua_meddqa.annotation.report_words import header_roles
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, NORMAL, UNDECIDED, TableRow

HEADER = [(0, "项目"), (300, "结果"), (450, "参考区间")]
SIMPLE = [
    HEADER,
    [(0, "白细胞(WBC)"), (300, "5.60"), (450, "3.5-9.5")],
    [(0, "红细胞(RBC)"), (300, "3.90"), (450, "4.3-5.8")],
    [(0, "血小板(PLT)"), (300, "410"), (450, "125-350")],
]
SIMPLE_ROWS = [
    TableRow("白细胞(WBC)", "5.60", "3.5-9.5", NORMAL),
    TableRow("红细胞(RBC)", "3.90", "4.3-5.8", LOW),
    TableRow("血小板(PLT)", "410", "125-350", HIGH),
]


def table(boxes):
    return list(draft(page(boxes)).table)


def fields(boxes):
    return list(draft(page(boxes)).key_values)


def test_one_table():
    assert table(lines(SIMPLE)) == SIMPLE_ROWS


@pytest.mark.parametrize("degrees", [-2, -0.6, 0.6, 2])
def test_what_is_left_of_a_tilt_does_no_harm(degrees):
    wide = [[(x * 2, text) for x, text in row] for row in SIMPLE * 1]
    wide += [[(0, "葡萄糖(GLU)测定结果说明文字"), (600, "5.1"), (900, "3.9-6.1")]]
    wide += [[(0, "尿素氮测定结果说明文字二"), (600, "5.2"), (900, "2.9-8.2")]]
    wide += [[(0, "总蛋白测定结果说明文字三"), (600, "75"), (900, "65-85")]]
    assert [row.result for row in table(turned(lines(wide), degrees))] == ["5.60", "3.90", "410", "5.1", "5.2", "75"]


def test_headers_of_two_tables_that_overlap():
    """The last header of the left table ends behind the first header of the right one."""
    head = [(0, "项目"), (200, "结果"), (300, "参考区间/单位"), (420, "项目"), (620, "结果"), (720, "参考区间")]
    rows = [
        [(0, f"白细胞{n}"), (200, "5.60"), (310, "3.5-9.5"), (425, f"总蛋白{n}"), (620, "70"), (720, "65-85")]
        for n in "甲乙丙"
    ]
    drafted = [(row.item, row.result, row.range) for row in table(lines([head, *rows]))]
    assert drafted == [
        *((f"白细胞{n}", "5.60", "3.5-9.5") for n in "甲乙丙"),
        *((f"总蛋白{n}", "70", "65-85") for n in "甲乙丙"),
    ]


def test_two_tables_side_by_side_and_cells_that_wrap_in_one():
    left = lines(SIMPLE)
    right = lines(
        [
            [(600, "项目"), (900, "结果"), (1050, "参考区间")],
            [(600, "低密度脂蛋白"), (900, "5.26"), (1050, "健康人群:<3.4")],
            [(1050, "高危人群:<2.59")],
            [(1050, "极高危人")],
            [(1050, "群:<2.07mmol/L")],
            [(600, "总胆固醇"), (900, "5.0"), (1050, "<5.72mmol/L")],
        ]
    )
    assert table(left + right) == [
        *SIMPLE_ROWS,
        TableRow("低密度脂蛋白", "5.26", "健康人群:<3.4 高危人群:<2.59 极高危人群:<2.07mmol/L", HIGH),
        TableRow("总胆固醇", "5.0", "<5.72mmol/L", NORMAL),
    ]


def test_tables_below_each_other_have_their_own_columns():
    upper = lines(SIMPLE)
    lower = lines(
        [
            [(0, "序号"), (80, "检验项目"), (500, "参考值"), (700, "测定值"), (800, "单位")],
            [(0, "1"), (80, "促甲状腺激素"), (500, "0.27-4.2"), (700, "1.33"), (800, "mIU/L")],
            [(0, "2"), (80, "甲胎蛋白"), (500, "0-7"), (700, "12.1"), (800, "ng/mL")],
        ],
        top=200,
    )
    assert table(upper + lower) == [
        *SIMPLE_ROWS,
        TableRow("促甲状腺激素", "1.33", "0.27-4.2mIU/L", NORMAL),
        TableRow("甲胎蛋白", "12.1", "0-7ng/mL", HIGH),
    ]


def test_columns_of_other_kinds_and_right_aligned_numbers():
    boxes = lines(
        [
            [
                (0, "No"),
                (60, "项目名称"),
                (330, "英文缩写"),
                (500, "结果"),
                (600, "提示"),
                (700, "单位"),
                (820, "参考范围"),
            ]
        ]
    )
    for number, (name, short, result, flag, unit, limits) in enumerate(
        [
            ("中性粒细胞百分比", "NEUT%", "81.2", "↑", "%", "40-75"),
            ("血红蛋白", "HGB", "98", "↓", "g/L", "130-175"),
            ("尿蛋白", "PRO", "阴性", "", "", "阴性"),
        ],
        start=1,
    ):
        y = number * 30
        boxes += [box(str(number), 0, y), box(name, 60, y), box(short, 330, y), right_box(result, 545, y)]
        boxes += [box(text, x, y) for text, x in ((flag, 605), (unit, 700), (limits, 820)) if text]
    assert table(boxes) == [
        TableRow("中性粒细胞百分比", "81.2", "40-75%", HIGH),
        TableRow("血红蛋白", "98", "130-175g/L", LOW),
        TableRow("尿蛋白", "阴性", "阴性", NORMAL),
    ]


def test_names_that_wrap_above_and_below_their_result():
    boxes = lines([HEADER])
    for y, name, result in (
        (40, ("小而密低密度脂蛋白", "胆固醇测定"), "1.12"),
        (110, ("高密度脂蛋白", "胆固醇测定"), "1.79"),
    ):
        boxes += [box(name[0], 0, y), box(name[1], 0, y + 24), box(result, 300, y + 12), box("0.2-1.9", 450, y + 12)]
    assert [(row.item, row.result) for row in table(boxes)] == [
        ("小而密低密度脂蛋白胆固醇测定", "1.12"),
        ("高密度脂蛋白胆固醇测定", "1.79"),
    ]


def test_names_and_ranges_that_wrap_together():
    boxes = lines([HEADER, SIMPLE[1]])
    boxes += lines([[(0, "低密度脂蛋白胆固醇("), (300, "5.26"), (450, "健康人群:<3.4")]], top=60)
    boxes += lines([[(0, "LDL-C)"), (450, "高危人群:<2.59")]], top=84)
    boxes += lines([SIMPLE[2]], top=114)
    wrapped = TableRow("低密度脂蛋白胆固醇(LDL-C)", "5.26", "健康人群:<3.4 高危人群:<2.59", HIGH)
    assert table(boxes) == [SIMPLE_ROWS[0], wrapped, SIMPLE_ROWS[1]]


def test_a_name_alone_is_no_part_of_the_row_above():
    rows = [HEADER, SIMPLE[1], [(0, "凝血功能")], SIMPLE[2], SIMPLE[3]]
    assert table(lines(rows)) == SIMPLE_ROWS


def test_boxes_that_hold_several_columns_are_cut():
    boxes = lines(
        [
            [(0, "NO项目"), (300, "结果"), (400, "参考区间"), (560, "单位")],
            [(0, "1 前列腺特异性抗原(PSA)"), (300, "33.70 ↑"), (400, "0.00-4.00"), (560, "ng/mL")],
            [(0, "2 游离PSA"), (300, "0.83 ↑  0.00-0.93"), (560, "ng/mL")],
            [(0, "3铁蛋白"), (300, "11.7↓"), (400, "30.0-400.0"), (560, "ng/mL.")],
        ]
    )
    assert table(boxes) == [
        TableRow("前列腺特异性抗原(PSA)", "33.70", "0.00-4.00ng/mL", HIGH),
        TableRow("游离PSA", "0.83", "0.00-0.93ng/mL", UNDECIDED),  # the arrow says high
        TableRow("铁蛋白", "11.7", "30.0-400.0ng/mL", LOW),
    ]


def test_numbers_that_begin_a_name_stay():
    rows = [
        HEADER,
        [(0, "25羟基维生素D"), (300, "9.4"), (450, "30-100")],
        [(0, "24小时尿蛋白"), (300, "0.1"), (450, "0-0.15")],
    ]
    assert [row.item for row in table(lines(rows))] == ["25羟基维生素D", "24小时尿蛋白"]


@pytest.mark.parametrize("unread", ["结果", "参考区间", "项目"])
def test_a_header_word_that_was_not_read(unread):
    boxes = [piece for piece in lines(SIMPLE) if piece.text != unread]
    assert table(boxes) == SIMPLE_ROWS


def test_a_header_word_that_was_misread():
    assert header_roles("参考区问") == header_roles("参考区间")
    assert header_roles("临床诊断") is None


def test_a_table_whose_header_is_not_on_the_picture():
    assert table(lines(SIMPLE[1:])) == SIMPLE_ROWS
    assert table(lines(SIMPLE[1:3])) == []  # too few to be sure


def test_results_in_words_without_a_header_and_tables_side_by_side():
    rows = [
        [(0, "尿蛋白"), (200, "阴性"), (300, "阴性"), (500, "白细胞"), (700, "12"), (800, "0-25")],
        [(0, "尿糖"), (200, "2+"), (300, "阴性"), (500, "红细胞"), (700, "30"), (800, "0-17")],
    ]
    assert table(lines(rows)) == [
        TableRow("尿蛋白", "阴性", "阴性", NORMAL),
        TableRow("尿糖", "2+", "阴性", ABNORMAL),
        TableRow("白细胞", "12", "0-25", NORMAL),
        TableRow("红细胞", "30", "0-17", HIGH),
    ]


@pytest.mark.parametrize(("high", "low"), [("H", "L"), ("高", "低"), ("偏高", "偏低"), ("↑", "↓"), ("*", "*")])
def test_flags_in_a_column_or_behind_the_result(high, low):
    rows = [[(0, "项目"), (200, "结果"), (300, "提示"), (400, "单位"), (500, "参考值")]]
    rows += [[(0, "白细胞"), (200, "11.2"), (300, high), (400, "g/L"), (500, "3.5-9.5")]]
    rows += [[(0, "血红蛋白"), (200, f"98 {low}" if low != "*" else "98"), (400, "g/L"), (500, "130-175")]]
    assert table(lines(rows)) == [
        TableRow("白细胞", "11.2", "3.5-9.5g/L", HIGH),
        TableRow("血红蛋白", "98", "130-175g/L", LOW),
    ]


def test_litres_are_no_flag():
    rows = [[(0, "项目"), (200, "结果"), (400, "参考值")], [(0, "尿量"), (200, "1.5 L"), (400, "1.0-2.0")]]
    assert table(lines(rows)) == [TableRow("尿量", "1.5 L", "1.0-2.0", NORMAL)]


def test_result_and_unit_in_one_box():
    rows = [[(0, "项目"), (200, "结果"), (400, "单位"), (560, "参考值")]]
    rows += [[(0, "血红蛋白"), (200, "98  g/L"), (560, "130-175")]]
    assert table(lines(rows)) == [TableRow("血红蛋白", "98", "130-175g/L", LOW)]


def test_units_of_a_column_that_differ_in_capitals():
    """OCR engines confuse mL and ml."""
    rows = [[(0, "项目"), (200, "结果"), (400, "参考值"), (560, "单位")]]
    rows += [
        [(0, f"指标{n}"), (200, "1.5"), (400, "1.0-2.0"), (560, unit)] for n, unit in enumerate(["ng/mL", "ng/ml"])
    ]
    rows += [[(0, "镁"), (200, "0.9"), (400, "0.7-1.1"), (560, "mmol/L")]]
    assert [row.range for row in table(lines(rows))] == ["1.0-2.0ng/mL", "1.0-2.0ng/mL", "0.7-1.1mmol/L"]


def test_a_name_that_ends_in_a_number_is_not_cut():
    rows = [[(0, "项目"), (150, "结果"), (240, "参考值")], [(0, "25羟基维生素总量3"), (200, "9.4"), (300, "30-100")]]
    assert [(row.item, row.result) for row in table(lines(rows))] == [("25羟基维生素总量3", "9.4")]


def test_header_words_apart_are_two_columns():
    assert header_roles("结果 单位") == [("结果", "result"), ("单位", "unit")]
    assert header_roles("结 果") == [("结果", "result")]
    assert header_roles("序项目") == [("序", "index"), ("项目", "item")]


def test_rows_without_range_or_result():
    rows = [HEADER, [(0, "eGFR"), (300, "95")], [(0, "尿酸"), (450, "155-428")], SIMPLE[1]]
    assert table(lines(rows)) == [
        TableRow("eGFR", "95", "无", UNDECIDED),
        TableRow("尿酸", "无", "155-428", UNDECIDED),
        SIMPLE_ROWS[0],
    ]


def test_fields_end_a_table():
    rows = [*SIMPLE, [(0, "采样时间：2023-04-13 10:22"), (450, "检验者：张某")], [(0, "本报告仅对此标本负责")]]
    drafted = draft(page(lines(rows)))
    assert list(drafted.table) == SIMPLE_ROWS
    assert drafted.key_values == (("采样时间", "2023-04-13 10:22"), ("检验者", "张某"))


def test_fields_in_columns_with_empty_ones():
    rows = [
        [(0, "姓名："), (300, "性别：男"), (600, "年龄："), (670, "50岁")],
        [(0, "住 院 号:"), (300, "标本种类：血清"), (600, "备注：")],
    ]
    assert fields(lines(rows)) == [
        ("姓名", "无"),
        ("性别", "男"),
        ("年龄", "50岁"),
        ("住院号", "无"),
        ("标本种类", "血清"),
        ("备注", "无"),
    ]


def test_several_fields_in_one_box():
    rows = [[(0, "性别：男年龄：50岁住院号：0012 科室:泌尿外科"), (700, "检验日期：20230413检验者：")]]
    assert fields(lines(rows)) == [
        ("性别", "男"),
        ("年龄", "50岁"),
        ("住院号", "0012"),
        ("科室", "泌尿外科"),
        ("检验日期", "20230413"),
        ("检验者", "无"),
    ]


def test_keys_without_colon():
    rows = [
        [(0, "姓名："), (100, "李某"), (300, "接收时间"), (600, "科别"), (660, "血透门诊")],
        [(0, "检验目的"), (100, "前列腺特异性抗原+铁蛋白"), (600, "临床诊断 慢性肾衰竭")],
    ]
    assert fields(lines(rows)) == [
        ("姓名", "李某"),
        ("接收时间", "无"),
        ("科别", "血透门诊"),
        ("检验目的", "前列腺特异性抗原+铁蛋白"),
        ("临床诊断", "慢性肾衰竭"),
    ]


def test_what_is_far_away_is_no_value():
    assert fields(lines([[(0, "主诊医生："), (800, "(盖过章)")]])) == [("主诊医生", "无")]


def test_a_form_with_its_values_below_the_keys():
    rows = [[(0, "姓名"), (200, "性别"), (400, "年龄")], [(0, "李某"), (200, "男"), (400, "50岁")]]
    assert fields(lines(rows)) == [("姓名", "李某"), ("性别", "男"), ("年龄", "50岁")]


def test_header_words_with_wide_spaces():
    rows = [[(0, "项"), (60, "目"), (300, "结"), (360, "果"), (450, "参考值")], *SIMPLE[1:]]
    assert table(lines(rows)) == SIMPLE_ROWS


def test_ranges_below_their_row_as_on_telephones():
    rows = [
        SIMPLE[1][:2],
        [(0, "参考值：3.5-9.5")],
        SIMPLE[2][:2],
        [(0, "参考值：4.3-5.8")],
        SIMPLE[3][:2],
        [(0, "参考值：125-350")],
    ]
    assert table(lines(rows)) == SIMPLE_ROWS


def test_a_range_below_a_row_that_it_may_not_belong_to_gives_no_verdict():
    names = [[(0, "尿酸"), (300, "300")], [(0, "肌酐")], [(0, "参考值：155-428")]]  # the result of 肌酐 was not read
    known = [[(0, name), (300, "5"), (450, "0-9")] for name in ("钾", "钠", "氯")]
    drafted = draft(page(lines(known + names)))
    assert drafted.table[-1] == TableRow("尿酸", "300", "155-428", UNDECIDED)
    assert "different lines" in drafted.rows[-1].is_normal_reason
    beside = [[(0, "尿酸"), (200, "300"), (500, "肌酐"), (700, "60")], [(0, "参考值：155-428")]]
    drafted = draft(page(lines(known + beside)))
    assert all(row.is_normal == UNDECIDED for row in drafted.rows if row.range == "155-428")


def test_findings_below_their_heading():
    rows = [
        [(0, "超声所见：")],
        [(40, "前列腺大小：左右径45mm，前后径33mm，上下径40mm，形态饱满，内部回声不")],
        [(0, "均匀，可见强回声斑，最大约6mm。CDFI：未见明显异常血流信号，余未见明显异常。")],
        [(40, "膀胱：充盈可，壁光滑。")],
        [(0, "超声提示：前列腺增生伴钙化")],
        [(0, "报告医生：王某"), (400, "审核医生："), (700, "报告日期：2023-01-05")],
    ]
    assert fields(lines(rows)) == [
        (
            "超声所见",
            "前列腺大小：左右径45mm，前后径33mm，上下径40mm，形态饱满，内部回声不均匀，可见强回声斑，最大约6mm。"
            "CDFI：未见明显异常血流信号，余未见明显异常。\n膀胱：充盈可，壁光滑。",
        ),
        ("超声提示", "前列腺增生伴钙化"),
        ("报告医生", "王某"),
        ("审核医生", "无"),
        ("报告日期", "2023-01-05"),
    ]


def test_paragraphs_and_subheadings_within_a_diagnosis():
    rows = [
        [(0, "病理诊断：")],
        [(60, "1. 前列腺腺癌，部分区域累及神经，脉管内可见")],
        [(60, "瘤栓；")],
        [(60, "2.切缘未见癌组织。")],
        [(60, "免疫组化结果：P504s（+），CgA（小灶+），")],
        [(60, "AR（+）。")],
        [(0, "初诊医生："), (400, "主诊医生：")],
    ]
    assert fields(lines(rows)) == [
        (
            "病理诊断",
            "1.前列腺腺癌，部分区域累及神经，脉管内可见瘤栓；\n2.切缘未见癌组织。\n免疫组化结果：P504s（+），CgA（小灶+），AR（+）。",
        ),
        ("初诊医生", "无"),
        ("主诊医生", "无"),
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([(0, "姓名"), (40, "："), (60, "李某"), (300, "性别"), (340, "：男")], [("姓名", "李某"), ("性别", "男")]),
        ([(0, "【姓名】李某"), (300, "[性别]男")], [("姓名", "李某"), ("性别", "男")]),
        ([(0, "姓名：李某 性別：男")], [("姓名", "李某"), ("性别", "男")]),
        ([(0, "送检标本：血"), (300, "诊断建议：复查")], [("送检标本", "血"), ("诊断建议", "复查")]),
        (
            [(0, "采样时间：2023-01-0110:22"), (600, "报告时间：2023年1月5日9:30")],
            [("采样时间", "2023-01-01 10:22"), ("报告时间", "2023年1月5日 9:30")],
        ),
        (
            [(0, "诊断医师：李某"), (400, "机器：X-1"), (700, "医嘱号：7")],
            [("诊断医师", "李某"), ("机器", "X-1"), ("医嘱号", "7")],
        ),
    ],
)
def test_keys_as_engines_and_forms_write_them(row, expected):
    assert fields(lines([row])) == expected


@pytest.mark.parametrize(
    ("found", "concluded"),
    [("【影像所见】", "【影像诊断】"), ("MR所见", "MR诊断"), ("彩超描述：", "彩超提示："), ("镜检所见", "镜检诊断")],
)
def test_headings_of_findings(found, concluded):
    rows = [
        [(0, found)],
        [(40, "右肾大小正常，集合系统未见分离，左肾上极见囊性")],
        [(0, "病变，边界清楚。")],
        [(0, concluded)],
        [(0, "1、左肾囊肿，请结合临床")],
        [(0, "2、余未见异常。")],
    ]
    assert fields(lines(rows)) == [
        (found.strip("【】："), "右肾大小正常，集合系统未见分离，左肾上极见囊性病变，边界清楚。"),
        (concluded.strip("【】："), "1、左肾囊肿，请结合临床\n2、余未见异常。"),
    ]


def test_a_sentence_in_findings_is_no_field():
    rows = [[(0, "超声所见：膀胱壁光滑，其余部位同前次")], [(0, "描述。年龄因素所致可能。")]]
    assert fields(lines(rows)) == [("超声所见", "膀胱壁光滑，其余部位同前次描述。年龄因素所致可能。")]


def test_a_page_without_text_or_table():
    assert draft(page([])) == draft(page([box("检验报告单", 300, 0)]))
    assert draft(page([])).table == () and draft(page([])).key_values == ()


PIECES = [
    "项目",
    "结果",
    "参考值",
    "单位",
    "姓名：",
    "性别：男",
    "诊断",
    "检查所见：",
    "尿酸",
    "5.6↑",
    "3.5-9.5",
    "NO项目",
    "1",
    "备注",
]


@given(
    st.lists(
        st.tuples(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), st.integers(0, 900), st.integers(0, 400)),
        max_size=25,
    )
)
def test_any_page_gets_a_draft_that_invents_nothing(pieces):
    boxes = [box(text or " ", x, y) for text, x, y in pieces]
    printed = Counter("".join(text for text, _, _ in pieces) + "无" * 99)
    drafted = draft(page(boxes))
    texts = [text for pair in drafted.key_values for text in pair if text != "无"]
    texts += [text for row in drafted.table for text in (row.item, row.result, row.range)]
    for text in texts:
        assert not Counter("".join(text.split())) - printed, text
    assert draft(page(boxes)) == drafted


@pytest.mark.parametrize(
    ("text", "report_type"),
    [
        ("病理号：12", "Pathology"),
        ("检查方法：T2WI", "MRI"),
        ("CT平扫", "CT"),
        ("超声所见：", "Ultrasound"),
        ("出院小结", "Clinical"),
    ],
)
def test_report_type_of_a_draft(text, report_type):
    from types import SimpleNamespace

    boxes = [box(text, 0, 0)]
    drafted = draft_annotation(
        SimpleNamespace(restored=page(boxes), boxes=boxes, quality="low"), "7", "a/7.png", "photo"
    )
    assert (drafted.report_type, drafted.image_quality, drafted.image_type, drafted.idx) == (
        report_type,
        "low",
        "photo",
        "7",
    )


def test_a_pages_title_is_no_patients_name():
    rows = [box("姓名：", 160, 40), box("检验报告单", 250, 36, 28), box("仁安示范医院", 230, 0, 32)]
    rows += lines([[(0, "性别：男"), (250, "年龄：23岁"), (500, "科别：急诊科")]], top=80)
    assert fields(rows) == [("姓名", "无"), ("性别", "男"), ("年龄", "23岁"), ("科别", "急诊科")]
    named = [box("姓名：", 160, 40), box("王小明", 230, 40), *rows[1:]]
    assert ("姓名", "王小明") in fields([named[0], named[1], *rows[3:]])
    small = [rows[0], box("病理检查报告单", 250, 40), *rows[3:]]  # in letters of the text
    assert ("姓名", "无") in fields(small)
    assert ("诊断", "见病理报告单") in fields([box("诊断：", 0, 0), box("见病理报告单", 80, 0)])


def test_an_unknown_word_in_a_column_of_keys_is_a_key():
    rows = [[(0, "性别"), (100, "男"), (300, "年龄"), (400, "23岁")], [(0, "检测平台"), (100, "AU5800"), (300, "科别")]]
    found = fields(lines(rows))
    assert found == [("性别", "男"), ("年龄", "23岁"), ("检测平台", "AU5800"), ("科别", "无")]
    elsewhere = [rows[0], [(50, "检测平台"), (220, "AU5800")]]
    assert "检测平台" not in dict(fields(lines(elsewhere)))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (  # below a key with a colon
            [[(0, "姓名：张三"), (300, "性别：男")], [(0, "手术医士"), (150, "李明")]],
            [("姓名", "张三"), ("性别", "男"), ("手术医士", "李明")],
        ),
        (  # a grid of which no key is known
            [
                [(0, "切口情形"), (150, "甲级"), (400, "护理等级"), (550, "一级")],
                [(0, "手术医士"), (150, "李明"), (400, "手术体位"), (550, "平卧位")],
            ],
            [("切口情形", "甲级"), ("护理等级", "一级"), ("手术医士", "李明"), ("手术体位", "平卧位")],
        ),
        (  # with the ending of a key
            [[(0, "姓名：张三")], [(90, "复查日期"), (250, "2023-01-02")]],
            [("姓名", "张三"), ("复查日期", "2023-01-02")],
        ),
        (  # running text in several boxes
            [
                [(0, "检查所见：")],
                [(0, "肝脏形态"), (150, "大小正常，光滑")],
                [(0, "胆囊不大"), (150, "壁不厚，无异常")],
            ],
            [("检查所见", "肝脏形态大小正常，光滑胆囊不大壁不厚，无异常")],
        ),
        ([[(0, "诊断：")], [(0, "前列腺增生"), (150, "膀胱结石")]], [("诊断", "前列腺增生膀胱结石")]),
    ],
)
def test_words_that_stand_alone_in_front_of_a_value(rows, expected):
    assert fields(lines(rows)) == expected


def test_several_keys_with_their_values_in_one_box():
    assert fields([box("检查部位 泌尿系 检查方法 平扫", 0, 0)]) == [("检查部位", "泌尿系"), ("检查方法", "平扫")]
