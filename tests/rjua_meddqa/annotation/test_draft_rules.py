"""One page for each rule of the drafts that other tests would not miss: what the page shows, and what goes wrong
without the rule. Texts are made up; pages named are those whose layout they have."""

from meddqa_boxes import box, lines, page

from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.annotation.report_words import header_roles
from rjua_meddqa.schema import NORMAL, UNDECIDED

HEADER = [(0, "项目"), (300, "结果"), (450, "参考区间")]
WBC = [(0, "白细胞(WBC)"), (300, "5.60"), (450, "3.5-9.5")]
RBC = [(0, "红细胞(RBC)"), (300, "4.90"), (450, "4.3-5.8")]
NAMES = ["白细胞(WBC)", "红细胞(RBC)"]


def rows(boxes):
    return [(row.item, row.result, row.range) for row in draft(page(boxes)).table]


def names(boxes):
    return [row.item for row in draft(page(boxes)).table]


def fields(boxes):
    return list(draft(page(boxes)).key_values)


def test_two_keys_in_a_row_are_no_header():
    """Made up: a form asks for 检查项目 and 检查结果 with colons."""
    form = [
        [(0, "检查项目："), (120, "前列腺"), (300, "检查结果："), (420, "未见异常")],
        [(0, "姓名："), (120, "李某")],
    ]
    assert fields(lines(form)) == [("检查项目", "前列腺"), ("检查结果", "未见异常"), ("姓名", "李某")]


def test_a_range_by_age_on_a_line_of_its_own_ends_no_table():
    """Made up, after the ranges by age of hard pages."""
    table = [HEADER, WBC, [(450, "年龄：<60")], RBC]
    assert names(lines(table)) == NAMES


def test_what_ends_a_table_without_a_colon():
    """Made up: a field whose colon was not read, a page number and a legend under the columns of a table."""
    for last in (
        [(0, "采样时间"), (300, "2023-04-13")],
        [(0, "第 1 页"), (300, "共 2 页")],
        [(0, "注：↑ 高于参考值，↓ 低于参考值，结果")],
    ):
        assert names(lines([HEADER, WBC, RBC, last])) == NAMES, last


def test_two_columns_of_another_kind_belong_to_one_table():
    """Made up: 检测方法 and 仪器 between names and results begin no second table."""
    head = [(0, "项目"), (200, "检测方法"), (400, "仪器"), (500, "结果"), (650, "参考值")]
    row = [(0, "甲胎蛋白"), (200, "发光法"), (400, "A1"), (500, "3.1"), (650, "0-7")]
    assert rows(lines([head, row])) == [("甲胎蛋白", "3.1", "0-7")]


def test_what_stands_below_the_last_row_is_no_table():
    """Made up: a field with a key that no list has."""
    assert fields([*lines([HEADER, WBC]), box("室内温度：22", 0, 130)]) == [("室内温度", "22")]


def test_a_text_far_below_a_single_row_is_no_part_of_its_name():
    """Made up: with one result, no distance of rows tells which lines are close."""
    assert names([*lines([HEADER, WBC]), box("请结合临床", 0, 130)]) == ["白细胞(WBC)"]


def test_stars_before_a_name():
    """Made up: 带*为认可项目."""
    assert names(lines([HEADER, [(0, "*白细胞"), *WBC[1:]], [(0, "★红细胞"), *RBC[1:]]])) == ["白细胞", "红细胞"]


def test_row_numbers():
    """Made up: the word over the numbers was not read; a row without result; a name that begins with a number."""
    items = ["1 白细胞", "2 红细胞", "3 血小板", "4 尿酸", "25羟基维生素D"]
    table = [HEADER, *([(0, item), (300, "5.6"), (450, "3-9")] for item in items)]
    assert names(lines(table)) == ["白细胞", "红细胞", "血小板", "尿酸", "25羟基维生素D"]


def test_signs_about_a_header_word():
    assert header_roles("*项目") == header_roles("项目")
    assert header_roles("[结果]") == header_roles("结果")


def test_a_single_long_box_is_no_measure_of_tilt():
    """Made up: taken for the page's tilt, one crooked line would move the far columns by a row."""
    head = [(0, "项目"), (600, "结果"), (900, "参考值")]
    table = [[(0, "尿酸"), (600, "4"), (900, "3-9")], [(0, "尿素"), (600, "5"), (900, "4-8")]]
    crooked = box("检验科地址见背面", 0, 260)
    points = tuple((x, y + 0.03 * x) for x, y in crooked.points)
    assert rows([*lines([head, *table]), type(crooked)(points, crooked.text)]) == [
        ("尿酸", "4", "3-9"),
        ("尿素", "5", "4-8"),
    ]


def test_a_result_of_two_pieces():
    """Two words of one result, of middles a pixel apart, are one result."""
    boxes = [
        *lines([HEADER, WBC]),
        box("尿蛋白", 0, 60),
        box("弱", 300, 60),
        box("阳性", 330, 61),
        box("阴性", 450, 60),
    ]
    assert rows(boxes)[1][1] == "弱 阳性"


def test_a_wrapped_range_beside_its_result_gets_a_verdict():
    """Hard pages of the development seed (41, 3 and 41, 28): no line of the range has the height of the result."""
    boxes = lines([HEADER, WBC])
    boxes += [box("睾酮", 0, 84), box("3.2", 300, 84), box("男:2.1-4.4", 450, 72), box("女:2.2-4.5", 450, 96)]
    assert [row.is_normal for row in draft(page(boxes)).table] == [NORMAL, NORMAL] != [NORMAL, UNDECIDED]


def test_a_name_that_wraps_within_brackets_is_one_name():
    """Hard page 13 of the development seed (41): the first line is shorter than the column."""
    boxes = lines([HEADER, WBC])
    boxes += [box("血小板计数(", 0, 64), box("PLT)", 0, 88), box("261", 300, 64), box("125-350", 450, 64)]
    boxes += [box("中性粒细胞绝对值百分比", 0, 112), box("55.6", 300, 112), box("40.0-75.0", 450, 112)]
    boxes += [box("红细胞(RBC)", 0, 136), box("4.90", 300, 136), box("4.3-5.8", 450, 136)]
    assert names(boxes)[1:] == ["血小板计数(PLT)", "中性粒细胞绝对值百分比", "红细胞(RBC)"]


def test_a_result_beside_the_end_of_a_wrapped_name_is_its_result():
    """Varied pages (303, 38): cells are aligned at their bottom. The range beside the first line is no row."""
    boxes = lines([HEADER, WBC])
    boxes += [box("国际标准化比率(I", 0, 84), box("NR)", 0, 108), box("1.41", 300, 108)]
    boxes += [box("0.80-1.2", 450, 84), box("0", 450, 108)]
    boxes += [box("红细胞(RBC)", 0, 144), box("4.90", 300, 144), box("4.3-5.8", 450, 144)]
    assert rows(boxes)[1:] == [("国际标准化比率(INR)", "1.41", "0.80-1.20"), ("红细胞(RBC)", "4.90", "4.3-5.8")]


def test_the_lines_of_a_header_word_are_no_cells_of_the_table_above():
    """Varied pages (303, 233)."""
    boxes = lines([HEADER, WBC])
    boxes += [box("项目", 0, 84), box("结果", 300, 84), box("参考范", 450, 72), box("围", 450, 96)]
    boxes += [box("红细胞(RBC)", 0, 132), box("4.90", 300, 132), box("4.3-5.8", 450, 132)]
    assert rows(boxes) == [("白细胞(WBC)", "5.60", "3.5-9.5"), ("红细胞(RBC)", "4.90", "4.3-5.8")]
