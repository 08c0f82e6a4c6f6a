"""The measure of restored rows: slips are forgiven, merged rows are not."""

from meddqa_boxes import box as placed
from meddqa_boxes import lines as rows_of_boxes
from row_check import check_rows, count_read, edit_distance

from rjua_meddqa.schema import Box, TableRow


def box(text, left, top, right, bottom):
    return Box(((left, top), (right, top), (right, bottom), (left, bottom)), text)


def row(item, result):
    return TableRow(item, result, "", "是")


def test_rows_are_found_on_one_line_with_slips_forgiven():
    lines = [
        [
            box("1  总胆红素(TBIL)", 0, 0, 9, 9),
            box("7.6", 10, 0, 12, 9),
            box("γ谷氨酰基转移酶（GGT)", 20, 0, 30, 9),
            box("46", 40, 0, 50, 9),
        ],
        [box("纤维连援蛋白(FN)", 0, 10, 9, 19), box("437.10", 10, 10, 12, 19)],
        [box("尿素", 0, 20, 9, 29)],
        [box("5.07", 10, 30, 12, 39), box("亚硝酸盐", 20, 30, 29, 39), box("阳性(++)", 30, 30, 39, 39)],
    ]
    rows = [
        row("总胆红素(TBIL)", "7.6"),
        row("γ谷氨酰基转移酶(GGT)", "46"),
        row("纤维连接蛋白(FN)", "437.`0"),
        row("亚硝酸盐(NIT)", "阳性(++)"),
        row("总胆红素(TBIL)", "6"),  # 46 and 7.6 hold a 6, but it is no number there
        row("γ谷氨酰基转移酶(GGT)", "7.6"),  # stands left of the item
        row("尿素(UREA)", "5.07"),
        row("尿素(UREA)", "9.99"),
        row("肌酐(CREA)", "79.0"),
    ]
    checks = check_rows(lines, rows)
    assert [check.found for check in checks] == ["exact", "exact", "slip", "exact", None, None, None, None, None]
    assert [check.reason for check in checks[5:]] == [
        "the result is on another line",
        "the result is on another line",
        "the result was not read",
        "the item was not read",
    ]


TABLE = [[(0, "白细胞"), (200, "5.60"), (300, "3.5-9.5")], [(0, "红细胞"), (200, "4.1"), (300, "3.5-5.6")]]
TABLE += [[(0, "血小板"), (200, "5.60"), (300, "4-10")]]
ROWS = [row("白细胞", "5.60"), row("红细胞", "4.1"), row("血小板", "5.60")]


def found(lines, rows=ROWS):
    return [check.found for check in check_rows(lines, rows)]


def test_a_whole_page_on_one_line_scores_nothing():
    boxes = rows_of_boxes(TABLE)
    by_row = [boxes[:3], boxes[3:6], boxes[6:]]
    assert found(by_row) == ["exact"] * 3
    assert found([boxes]) == [None] * 3
    assert count_read([boxes], ROWS) == 3, "all of it was read; it is the layout that fails"
    checks = check_rows([boxes], ROWS)
    assert "holds" in checks[0].reason and "as well" in checks[0].reason


def test_two_rows_on_one_line_count_for_neither_and_the_third_stands():
    boxes = rows_of_boxes(TABLE)
    assert found([boxes[:6], boxes[6:]]) == [None, None, "exact"]


def test_a_line_with_another_rows_result_alone_does_not_count():
    boxes = rows_of_boxes(TABLE)
    assert found([[*boxes[:3], boxes[4]], [boxes[3], boxes[5]], boxes[6:]]) == [None, None, "exact"]
    same = rows_of_boxes([TABLE[0], TABLE[2]])  # both results are 5.60
    assert found([[*same[:3], same[4]], [same[3], same[5]]], [ROWS[0], ROWS[2]]) == [None, None]


def test_tables_side_by_side_share_their_lines():
    left, right = rows_of_boxes(TABLE), [placed(b.text, b.left + 600, b.top) for b in rows_of_boxes(TABLE)]
    names = {"白细胞": "尿素", "红细胞": "肌酐", "血小板": "尿酸"}
    right = [placed(names.get(b.text, b.text), b.left, b.top) for b in right]
    both = [left[n : n + 3] + right[n : n + 3] for n in (0, 3, 6)]
    rows = [*ROWS, row("尿素", "5.60"), row("肌酐", "4.1"), row("尿酸", "5.60")]
    assert found(both, rows) == ["exact"] * 6
    assert found([[*both[0], *both[1]], both[2]], rows) == [None, None, "exact", None, None, "exact"]


def test_a_similar_items_line_is_not_this_items():
    lines = [[placed("总胆红素", 0, 0), placed("17.1", 200, 0)], [placed("直接胆红素", 0, 30), placed("6.8", 200, 30)]]
    assert found(lines, [row("总胆红素", "17.1"), row("直接胆红素", "6.8")]) == ["exact", "exact"]
    assert found(lines, [row("总胆红素", "6.8"), row("直接胆红素", "17.1")]) == [None, None]


def test_edit_distance():
    assert [edit_distance(*pair) for pair in (("abc", "abc"), ("abc", ""), ("kitten", "sitting"))] == [0, 3, 3]
