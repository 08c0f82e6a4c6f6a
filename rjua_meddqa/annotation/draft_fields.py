"""Reads key-values from placed text: fields in columns, keys with and without a colon, findings over many lines.

A value is right of its key, or below a key that is a heading. Within findings (`前列腺大小：…`), only known names of
report fields are keys.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, in_row, join_wrapped, letter_width, overlap, part, rows
from rjua_meddqa.schema import MISSING

LONGEST_KEY = 12  # characters without white space
FARTHEST_VALUE = 6  # heights between a key and a value in its row
FARTHEST_LINE = 1.3  # heights between the lines of one value
SUBHEADING = 0.6  # of the indent of a paragraph: the smallest indent of its subheadings
SHORT_LINE = 6  # heights of empty space behind the last line of a paragraph
TITLE = 1.12  # times the usual width of letters
CENTRED = 0.06  # of the text's width, the largest distance between the middles of title and text
ALIGNED = 0.5  # heights by which edges of one column may differ
_BARE_KEY = re.compile(r"[\u4e00-\u9fff]{2,8}")
_SENTENCE = re.compile(r"[,，。;；、]")
_COLON = re.compile(r"(?<!\d)[:：]|[:：](?!\d)")  # 12:30 is a time
_TITLE_TEXT = re.compile(r"[A-Z\d-]{0,4}[\u4e00-\u9fff]{4,}")  # digits are wider than half a Chinese character
_NAMES_FORM = re.compile(r"[^见附\s:：]{0,12}(?:报告单|化验单|检验单|检查单)")
_BRACKETED = re.compile(r"(?:^|(?<=\s))[【〔\[［]([^【】〔〕\[\]［］]{2,12})[】〕\]］]")  # 【检查所见】
_KEY_AND_SPACE = re.compile(r"(\S{2,8}?)\s+(\S.*)", re.DOTALL)
_DATE_AND_TIME = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{2}|\d{4}年\d{1,2}月\d{1,2}日)(?=\d{1,2}[:：]\d{2})"
)  # OCR engines lose the space
_ENUMERATION = re.compile(r"^([(（]?\d{1,2}[.、)）]|[一二三四五六七八九十]、)\s+")
_STARTS_PARAGRAPH = re.compile(
    r"\s*(?:[(（]?\d{1,2}[.、)）](?!\d)|[一二三四五六七八九十]、|[\u4e00-\u9fff]{2,10}[:：])"
)


@dataclass(eq=False)
class Field:
    """A key on the page and the cells of its value."""

    key: str
    cell: Cell
    pieces: list[Cell] = field(default_factory=list)


def read_fields(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return (key, value) pairs in reading order. The value of a key with nothing beside or below it is 无."""
    cells = [_with_colons(cell) for cell in cells]
    by_place = _keys_by_place(cells)
    fields: list[Field] = []
    owners: dict[Cell, Field | None] = {}
    for row in rows(cells):
        for cell in row:
            section = _open_section(fields)
            is_placed = cell in by_place and (by_place[cell] or not (section and _is_near(cell, section)))
            for key, piece in [(_clean_key(cell.text), cell)] if is_placed else _split(cell, section):
                if key is not None:
                    fields.append(Field(key, piece))
                    owners[piece] = fields[-1]
                elif piece.text.strip() and not words.BOILERPLATE.search(piece.text):
                    owner = _owner(piece, fields, owners)
                    owners[piece] = owner
                    if owner is not None:
                        owner.pieces.append(piece)
    return [(found.key, _value(found.pieces)) for found in fields]


def find_titles(cells: Sequence[Cell]) -> set[Cell]:
    """Return the titles of a page: names of forms, and centred cells with larger letters than most that are not keys.

    Letters are compared by their width, since the height of a box is less reliable.
    """
    if not cells:
        return set()
    usual = median(map(letter_width, cells))
    left, right = min(cell.left for cell in cells), max(cell.right for cell in cells)
    return {
        cell
        for cell in cells
        if _NAMES_FORM.fullmatch(cell.text)
        or letter_width(cell) > TITLE * usual
        and abs(cell.left + cell.right - left - right) < 2 * CENTRED * (right - left)
        and _TITLE_TEXT.fullmatch(cell.text)
        and not _COLON.search(cell.text)
        and not words.is_known_key(cell.text)
    }


def _keys_by_place(cells: Sequence[Cell]) -> dict[Cell, bool]:
    """Find keys that no list contains and that lack a colon: words that stand alone in front of a value.

    They end like a key, their left edge is that of a known key, or another such pair is in the same columns. Returns
    whether they are also as far from their value as a known key, so that they end running text.
    """
    heads = {cell for cell in cells if words.fold(cell.text) in words.known_keys() or _has_known_key(cell.text)}
    pairs: dict[Cell, Cell] = {}
    for row in rows(cells):
        for cell, value in pairwise(row):
            is_free = cell in heads or (cell not in pairs.values() and _BARE_KEY.fullmatch(cell.text))
            if is_free and value not in heads and not _SENTENCE.search(value.text):
                pairs[cell] = value
    beside = {head for head in heads if head in pairs or _COLON.search(head.text)}  # not the head of a column
    offsets = [value.left - key.left for key, value in pairs.items() if key in heads]
    found = {}
    for cell, value in pairs.items():
        is_below = any(_is_aligned(cell, head) for head in beside)
        is_certain = is_below and any(abs(value.left - cell.left - by) < ALIGNED * cell.height for by in offsets)
        in_grid = any(_is_aligned(cell, key) and _is_aligned(value, pairs[key]) for key in pairs if key != cell)
        if cell not in heads and (is_below or in_grid or words.is_known_key(cell.text)):
            found[cell] = is_certain
    return found


def _has_known_key(text: str) -> bool:
    key, *rest = _COLON.split(text)
    return bool(rest) and words.is_known_key(key)


def _is_aligned(one: Cell, other: Cell) -> bool:
    return abs(one.left - other.left) < ALIGNED * one.height


def _open_section(fields: list[Field]) -> Field | None:
    """Return the section whose running text continues with cells that are not fields."""
    return fields[-1] if fields and words.is_section(fields[-1].key) else None


def _with_colons(cell: Cell) -> Cell:
    """Rewrite a key in brackets as a key with a colon."""

    def write(match: re.Match[str]) -> str:
        return f" {match[1]}：" if words.is_known_key(match[1]) else match[0]

    return replace(cell, text=_BRACKETED.sub(write, cell.text))


def _split(cell: Cell, section: Field | None) -> list[tuple[str | None, Cell]]:
    """Split a cell into (key, cell of the key) and (None, cell of the text) parts."""
    found: list[tuple[str | None, Cell]] = []
    start = 0
    for colon in _COLON.finditer(cell.text):
        span = _key_before(cell, start, colon.start(), section if not found else None, bool(found))
        if span is None:
            continue
        if cell.text[start : span[0]].strip():
            found.append((None, _trim(cell, start, span[0])))
        found.append((_clean_key(cell.text[slice(*span)]), part(cell, span[0], colon.end())))
        start = colon.end()
    if not found:
        bare = _bare_key(cell, section)
        if bare is not None:
            return bare
    if cell.text[start:].strip():
        found.append((None, _trim(cell, start, len(cell.text))))
    return found


def _key_before(cell: Cell, start: int, end: int, section: Field | None, is_later: bool) -> tuple[int, int] | None:
    """Return the span of the key before a colon in a cell's text, or None if the colon is part of a value."""
    text = cell.text[start:end]
    candidate = text.strip()
    begin = start + len(text) - len(text.lstrip())
    if not candidate:
        return None
    is_exact = words.fold(candidate) in words.known_keys() or (not is_later and words.is_qualified_key(candidate))
    if is_exact or (words.is_known_key(candidate) and not is_later):
        return None if section is not None and _is_subheading(candidate, cell, section) else (begin, end)
    if (offset := _known_tail(candidate, is_in_section=section is not None)) is not None:
        return begin + offset, end
    if is_later:
        word = candidate.split()[-1]
        is_separate = len(word) < len(candidate) and len(word) >= 2
        return (begin + candidate.rindex(word), end) if is_separate and _looks_like_key(word) else None
    return (begin, end) if section is None and _looks_like_key(candidate) else None


def _known_tail(text: str, is_in_section: bool) -> int | None:
    """Return the start of the longest known key at the end of `text`, behind a value."""
    for offset in range(1, len(text) - 1):
        if words.fold(text[offset:]) in words.known_keys() and not (is_in_section and not text[offset - 1].isspace()):
            return offset
    return None


def _looks_like_key(text: str) -> bool:
    word = words.fold(text)
    is_short = 1 < len(word) <= LONGEST_KEY
    return (
        is_short
        and not re.search(r"[,。;、!?<>≤≥=%]|\d{2}|^\d", word)
        and bool(re.search(r"[\u4e00-\u9fffA-Za-z]", word))
    )


def _is_subheading(key: str, cell: Cell, section: Field) -> bool:
    """Whether a known section word is a subheading: aligned with the paragraphs of an indented text."""
    body = [piece for piece in section.pieces if not in_row(piece, section.cell)]
    if not body or not words.is_section(key):
        return False
    edge = min(piece.left for piece in body)
    return edge - section.cell.left > cell.height and cell.left - section.cell.left > SUBHEADING * (
        edge - section.cell.left
    )


def _bare_key(cell: Cell, section: Field | None) -> list[tuple[str | None, Cell]] | None:
    """Split off a key whose colon was not read: a known word that fills a cell or precedes white space and a value.

    The colon may have become a stop (`床号；12`) or nothing (`性别男`). Sections in running text are not split so.
    """
    tokens = [match.span() for match in re.finditer(r"\S+", cell.text)]
    keys = [span for span in tokens if words.fold(cell.text[slice(*span)]) in words.known_keys()]
    if len(keys) > 1 and keys[0] == tokens[0]:  # several keys with their values in one box
        found: list[tuple[str | None, Cell]] = []
        for (start, end), (following, _) in pairwise([*keys, (len(cell.text), 0)]):
            found.append((_clean_key(cell.text[start:end]), part(cell, start, end)))
            if cell.text[end:following].strip():
                found.append((None, _trim(cell, end, following)))
        return found
    text = cell.text.rstrip(" .;；。·,'，")
    if len(words.fold(text)) > 1 and words.fold(text) in words.known_keys():
        return [(_clean_key(text), cell)]
    match = _KEY_AND_SPACE.fullmatch(cell.text)
    if match and words.fold(match[1]) in words.known_keys():
        key, value = part(cell, *match.span(1)), part(cell, match.start(2), len(cell.text))
        return [(_clean_key(match[1]), key), (None, value)]
    return None


def _owner(piece: Cell, fields: list[Field], owners: dict[Cell, Field | None]) -> Field | None:
    """Return the field that `piece` belongs to: the one left of it, else above it, else the open section."""
    over = _cell_above(piece, owners)
    owner_over = owners[over] if over is not None else None
    left = _left_in_row(piece, owners)
    if left is not None:
        owner_left = owners[left]
        is_key_left = owner_left is not None and owner_left.cell == left
        if over is not None and owner_over is not None and not is_key_left and _heads_a_column(over, owner_over):
            return owner_over
        return owners[left] if piece.left - left.right <= FARTHEST_VALUE * piece.height else None
    if owner_over is not None and (
        over != owner_over.cell or words.is_section(owner_over.key) or _heads_a_column(over, owner_over)
    ):
        return owner_over
    section = _open_section(fields)
    if section is None:
        return None
    return section if _is_near(piece, section) else None


def _is_near(piece: Cell, section: Field) -> bool:
    """Whether `piece` is close enough to the last line of a section to continue it."""
    last = section.pieces[-1] if section.pieces else section.cell
    return piece.top - last.bottom <= 2 * FARTHEST_LINE * piece.height


def _cell_above(piece: Cell, owners: dict[Cell, Field | None]) -> Cell | None:
    """Return the lowest cell above `piece` that overlaps it, unless it is further away than a line."""
    above = [other for other in owners if other.y < piece.y and overlap(other, piece) > 0 and not in_row(other, piece)]
    over = max(above, key=lambda other: other.y, default=None)
    return None if over is None or piece.top - over.bottom > FARTHEST_LINE * piece.height else over


def _heads_a_column(over: Cell, owner: Field) -> bool:
    """Whether the cell above is a key without colon or value. In some forms, values are below such keys."""
    return over == owner.cell and not owner.pieces and not over.text.rstrip().endswith((":", "："))


def _left_in_row(piece: Cell, owners: dict[Cell, Field | None]) -> Cell | None:
    """Return the nearest cell left of `piece` in its row."""
    left = [other for other in owners if _is_left_of(other, piece) and in_row(other, piece, 1.4)]
    return max(left, key=lambda other: other.right, default=None)


def _is_left_of(other: Cell, piece: Cell) -> bool:
    return other.left < piece.left and other.right <= piece.left + piece.height  # boxes overlap a little


def _value(pieces: list[Cell]) -> str:
    """Join the text of a value: wrapped lines without a break, paragraphs with one. 无 for an empty value."""
    if not pieces:
        return MISSING
    right = max(piece.right for piece in pieces)
    text, last = "", None
    for row in rows(pieces):
        for number, piece in enumerate(row):
            addition = _ENUMERATION.sub(r"\1", piece.text.strip())
            if last is not None and number == 0 and _ends_paragraph(last, addition, right):
                text += "\n" + addition
            else:
                text = join_wrapped(text, addition, is_running=number == 0)
            last = piece
    text = _DATE_AND_TIME.sub(r"\1 ", text.strip().lstrip(":： "))  # the colon may be in a box of its own
    return text or MISSING


def _ends_paragraph(line: Cell, following: str, right: float) -> bool:
    """Whether a line ends a paragraph: the next line starts one, or much of the width is empty."""
    return bool(_STARTS_PARAGRAPH.match(following)) or right - line.right > SHORT_LINE * line.height


def _clean_key(text: str) -> str:
    return "".join(words.simplify(text).split()).strip("*·.,;；。'，:：【】[]")


def _trim(cell: Cell, start: int, end: int) -> Cell:
    text = cell.text[start:end]
    return part(cell, start + len(text) - len(text.lstrip()), end - (len(text) - len(text.rstrip())))
