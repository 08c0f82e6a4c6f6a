"""Key-values out of placed text: fields in columns, keys with and without a colon, findings over many lines.

A value stands right of its key, or below it where the key is a heading. A colon alone does not make a key: within
findings (`前列腺大小：…`) only words that name a field of a report do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, in_row, join_wrapped, overlap, part, rows
from rjua_meddqa.schema import MISSING

LONGEST_KEY = 12  # characters, white space not counted
FARTHEST_VALUE = 6  # heights between a key and a value in its row
FARTHEST_LINE = 1.3  # heights between the lines of one value
_COLON = re.compile(r"(?<!\d)[:：]|[:：](?!\d)")  # 12:30 is a time
_ENUMERATION = re.compile(r"^([(（]?\d{1,2}[.、)）]|[一二三四五六七八九十]、)\s+")
_STARTS_PARAGRAPH = re.compile(
    r"\s*(?:[(（]?\d{1,2}[.、)）](?!\d)|[一二三四五六七八九十]、|[\u4e00-\u9fff]{2,10}[:：])"
)


@dataclass(eq=False)
class Field:
    """A key on the page and the pieces of text that are its value."""

    key: str
    cell: Cell
    pieces: list[Cell] = field(default_factory=list)


def read_fields(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """(key, value) in reading order; the value of a key with nothing beside or below it is 无."""
    cells = _merge_spaced_keys(cells)
    fields: list[Field] = []
    owners: dict[Cell, Field | None] = {}
    early: dict[Cell, list[Cell]] = {}  # first lines of values that begin above the middle of their key
    keys = [cell for cell in cells if _is_key_alone(cell)]
    for row in rows(cells):
        row_fields = []
        for cell in row:
            section = _section_of(cell, row, fields, owners)
            for key, piece in _split(cell, section):
                if key is not None:
                    fields.append(Field(key, piece, early.pop(cell, [])))
                    row_fields.append(fields[-1])
                    owners[piece] = fields[-1]
                elif (coming := _key_coming(piece, keys, owners)) is not None:
                    early.setdefault(coming, []).append(piece)
                elif piece.text.strip() and not words.BOILERPLATE.search(piece.text):
                    owner = _owner(piece, row, row_fields, fields, owners)
                    owners[piece] = owner
                    if owner is not None:
                        owner.pieces.append(piece)
    return [(found.key, _value(found.pieces)) for found in fields]


def _is_key_alone(cell: Cell) -> bool:
    text = cell.text.rstrip()
    return text.endswith((":", "：")) and _looks_like_key(text.rstrip(" :：")) and not _COLON.search(text[:-1])


def _key_coming(piece: Cell, keys: list[Cell], owners: dict[Cell, Field | None]) -> Cell | None:
    """The key beside two lines of its value, of which `piece` is the upper: a little lower, left of it, not met yet."""
    if _left_in_row(piece, owners):
        return None
    met = {owner.cell for owner in owners.values() if owner is not None}
    for key in keys:
        is_beside = _is_left_of(key, piece) and piece.left - key.right < FARTHEST_VALUE * piece.height
        is_lower = 0 < key.y - piece.y < 0.9 * max(key.height, piece.height)
        if is_beside and is_lower and key not in met and not in_row(key, piece):
            return key
    return None


def _merge_spaced_keys(cells: Sequence[Cell]) -> list[Cell]:
    """`姓` and `名：` read as two boxes are one key."""
    merged: list[Cell] = []
    for row in rows(cells):
        position = 0
        while position < len(row):
            cell = row[position]
            following = row[position + 1] if position + 1 < len(row) else None
            if following is not None and len(cell.text) <= 2 and re.fullmatch(r"[\u4e00-\u9fff]+", cell.text):
                head = re.match(r"[\u4e00-\u9fff]{1,3}(?=\s*[:：])", following.text)
                is_near = following.left - cell.right < FARTHEST_VALUE * cell.height
                if head and is_near and words.is_known_key(cell.text + head[0]):
                    cell = Cell(cell.text + following.text, cell.left, following.right, cell.y, cell.height)
                    position += 1
            merged.append(cell)
            position += 1
    return merged


def _section_of(cell: Cell, row: list[Cell], fields: list[Field], owners: dict[Cell, Field | None]) -> Field | None:
    """The field whose running text `cell` goes on with if it is no field itself: a section right above."""
    if not fields or not words.is_section(fields[-1].key):
        return None
    section = fields[-1]
    if in_row(cell, section.cell):
        return section if cell.left > section.cell.left else None
    return section


def _split(cell: Cell, section: Field | None) -> list[tuple[str | None, Cell]]:
    """A cell's keys and texts in order: (key, cell of the key) or (None, cell of the text)."""
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
        bare = _bare_key(cell)
        if bare is not None:
            return bare
    if cell.text[start:].strip():
        found.append((None, _trim(cell, start, len(cell.text))))
    return found


def _key_before(cell: Cell, start: int, end: int, section: Field | None, is_later: bool) -> tuple[int, int] | None:
    """Where the key before a colon stands in a cell's text, or None where the colon is part of a value."""
    text = cell.text[start:end]
    candidate = text.strip()
    begin = start + len(text) - len(text.lstrip())
    if not candidate:
        return None
    is_exact = words.fold(candidate) in words.known_keys()
    if is_exact or (words.is_known_key(candidate) and not is_later):
        return None if section is not None and _is_subheading(candidate, cell, section) else (begin, end)
    for offset in range(1, len(candidate) - 1):  # the longest known key at the end, after a value
        tail = candidate[offset:]
        is_inside_text = section is not None and not candidate[offset - 1].isspace()
        if words.fold(tail) in words.known_keys() and not tail[0].isspace() and not is_inside_text:
            return begin + offset, end
    if is_later and words.is_known_key(candidate):
        return begin, end
    if is_later:
        word = candidate.split()[-1]
        is_separate = len(word) < len(candidate) and len(word) >= 2
        return (begin + candidate.rindex(word), end) if is_separate and _looks_like_key(word) else None
    if section is not None and not _is_heading(cell, end, section):
        return None
    return (begin, end) if _looks_like_key(candidate) else None


def _looks_like_key(text: str) -> bool:
    word = words.fold(text)
    is_short = 1 < len(word) <= LONGEST_KEY
    return (
        is_short
        and not re.search(r"[,。;、!?<>≤≥=%]|\d{2}|^\d", word)
        and bool(re.search(r"[\u4e00-\u9fffA-Za-z]", word))
    )


def _is_heading(cell: Cell, end: int, section: Field) -> bool:
    """Within running text, an unknown word is a key where it stands alone, as far left as the heading."""
    is_alone = not cell.text[end:].strip(" :：")
    return is_alone and abs(cell.left - section.cell.left) < 0.8 * cell.height


def _is_subheading(key: str, cell: Cell, section: Field) -> bool:
    """Whether a known section word stands within an indented text, as far right as its paragraphs."""
    body = [piece for piece in section.pieces if not in_row(piece, section.cell)]
    if not body or not words.is_section(key):
        return False
    edge = min(piece.left for piece in body)
    return edge - section.cell.left > cell.height and cell.left - section.cell.left > 0.6 * (edge - section.cell.left)


def _bare_key(cell: Cell) -> list[tuple[str | None, Cell]] | None:
    """A key whose colon was not read: a known word that fills a cell, or stands before white space and a value."""
    text = cell.text.rstrip(" .;；。·,'，")
    if len(words.fold(text)) > 1 and words.fold(text) in words.known_keys():
        return [(_clean_key(text), cell)]
    match = re.match(r"(\S{2,8}?)\s+(\S.*)", cell.text, re.DOTALL)
    if match and words.fold(match[1]) in words.known_keys():
        return [(_clean_key(match[1]), part(cell, 0, match.end(1))), (None, part(cell, match.start(2), len(cell.text)))]
    return None


def _owner(
    piece: Cell, row: list[Cell], row_fields: list[Field], fields: list[Field], owners: dict[Cell, Field | None]
) -> Field | None:
    """The field that `piece` belongs to."""
    nearest = _left_in_row(piece, owners)
    if nearest is not None:
        if piece.left - nearest.right <= FARTHEST_VALUE * piece.height:
            return owners[nearest]
        return None
    above = [other for other in owners if other.y < piece.y and overlap(other, piece) > 0 and not in_row(other, piece)]
    if above:
        nearest = max(above, key=lambda other: other.y)
        owner = owners[nearest]
        if owner is not None and piece.top - nearest.bottom <= FARTHEST_LINE * piece.height:
            is_below_key = nearest is owner.cell
            if not is_below_key or words.is_section(owner.key):
                return owner
    section = fields[-1] if fields and words.is_section(fields[-1].key) else None
    if section is None:
        return None
    last = section.pieces[-1] if section.pieces else section.cell
    return section if piece.top - last.bottom <= 2 * FARTHEST_LINE * piece.height else None


def _left_in_row(piece: Cell, owners: dict[Cell, Field | None]) -> Cell | None:
    """What stands nearest to the left of `piece` in its row."""
    left = [other for other in owners if _is_left_of(other, piece) and in_row(other, piece, 0.7)]
    return max(left, key=lambda other: other.right, default=None)


def _is_left_of(other: Cell, piece: Cell) -> bool:
    return other.left < piece.left and other.right <= piece.left + piece.height  # boxes overlap a little


def _value(pieces: list[Cell]) -> str:
    """The text of a value: wrapped lines joined, a new line where a paragraph begins; 无 for nothing."""
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
    return text.strip() or MISSING


def _ends_paragraph(line: Cell, following: str, right: float) -> bool:
    """Whether a line of a value ended on purpose: the next begins a paragraph, or much of the width is left empty."""
    return bool(_STARTS_PARAGRAPH.match(following)) or right - line.right > 6 * line.height


def _clean_key(text: str) -> str:
    return "".join(text.split()).strip("*·.,;；。'，:：【】[]")


def _trim(cell: Cell, start: int, end: int) -> Cell:
    text = cell.text[start:end]
    return part(cell, start + len(text) - len(text.lstrip()), end - (len(text) - len(text.rstrip())))
