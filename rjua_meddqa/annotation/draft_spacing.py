"""Joins words that are printed with wide spaces (`姓　名：`, `结　果`) and were read as several boxes."""

import re
from collections.abc import Sequence

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, rows

_SHORT = re.compile(r"[\u4e00-\u9fff]{1,2}")
_HEAD = re.compile(r"([\u4e00-\u9fff]{1,3})\s*(?:[:：]|$)")


def merge_spaced_words(cells: Sequence[Cell]) -> list[Cell]:
    """Join short neighbours in a row that together name a field or a column."""
    merged: list[Cell] = []
    for row in rows(cells):
        position = 0
        while position < len(row):
            cell = row[position]
            position += 1
            while position < len(row) and _belong_together(cell, row[position]):
                following = row[position]
                height = max(cell.height, following.height)
                cell = Cell(
                    cell.text + following.text, cell.left, following.right, (cell.y + following.y) / 2, height, cell.box
                )
                position += 1
            merged.append(cell)
    return merged


def _belong_together(cell: Cell, following: Cell) -> bool:
    head = _HEAD.match(following.text)
    if not head or not _SHORT.fullmatch(cell.text):
        return False
    alone = {words.fold(cell.text), words.fold(head[1])} & (words.HEADER_WORDS.keys() | words.known_keys())
    word = words.fold(cell.text + head[1])
    has_colon = following.text.rstrip()[-1:] in ":：" or ":" in following.text or "：" in following.text
    return not alone and (words.is_known_key(word) if has_colon else word in words.HEADER_WORDS)
