"""Whether the boxes of an entry are in the place that its meaning requires. No distance on the page is a threshold."""

from collections.abc import Mapping, Sequence

from rjua_meddqa.schema import Box

Cells = Mapping[str, Sequence[Box]]  # the boxes of a row by name


def is_beside(key: Sequence[Box], value: Sequence[Box]) -> bool:
    """Whether a value is in the box of its key, right of it or below it."""
    return max(box.bottom for box in value) > key[0].top and max(box.right for box in value) > key[0].left


def are_level(one: Sequence[Box], other: Sequence[Box]) -> bool:
    """Whether some box of each has its middle within the height of the other, or one of them lacks a box."""
    if not one or not other:
        return True
    return any(a.top < _middle([b]) < a.bottom or b.top < _middle([a]) < b.bottom for a in one for b in other)


def find_misplaced(rows: Sequence[Cells]) -> list[set[str]]:
    """Return the names of the cells of each row that are nearer to another item, or in another column.

    An item is in the place of another row if both name the same box. A cell belongs to its row if no other item of the
    same table is as near to its middle, and to its column if it overlaps the cell of that name above or below it.
    """
    found: list[set[str]] = []
    for number, row in enumerate(rows):
        table = [other for other in rows if _overlap(other["item"], row["item"])]
        others = [other["item"] for n, other in enumerate(rows) if n != number and other in table]
        misplaced = {"item"} if any(item == row["item"] for item in others) else set()
        for name, boxes in row.items():
            if name == "item":
                continue
            own = _distance(row["item"], boxes)
            is_nearest = all(own < _distance(item, boxes) for item in others)
            column = [cells for other in _neighbours(row, table) if (cells := other.get(name))]
            if not is_nearest or (column and not any(_overlap(boxes, cells) for cells in column)):
                misplaced.add(name)
        found.append(misplaced)
    return found


def _neighbours(row: Cells, table: Sequence[Cells]) -> list[Cells]:
    """The nearest rows above and below."""
    steps = [(_middle(other["item"]) - _middle(row["item"]), number) for number, other in enumerate(table)]
    below = sorted(step for step in steps if step[0] > 0)[:1]
    above = sorted(step for step in steps if step[0] < 0)[-1:]
    return [table[number] for _, number in (*above, *below)]


def _distance(item: Sequence[Box], boxes: Sequence[Box]) -> float:
    """The vertical distance of the middles of an item and of a cell."""
    return abs(_middle(item) - _middle(boxes))


def _middle(boxes: Sequence[Box]) -> float:
    return (min(box.top for box in boxes) + max(box.bottom for box in boxes)) / 2


def _left(boxes: Sequence[Box]) -> float:
    return min(box.left for box in boxes)


def _right(boxes: Sequence[Box]) -> float:
    return max(box.right for box in boxes)


def _overlap(one: Sequence[Box], other: Sequence[Box]) -> bool:
    return _left(one) < _right(other) and _left(other) < _right(one)
