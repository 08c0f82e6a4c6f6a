"""Plain-text tables with aligned columns."""

from collections.abc import Container, Sequence


def align(rows: Sequence[Sequence[str]], left: Container[int] = (0,), line: bool = False) -> str:
    """Return rows of cells as columns. Short rows are allowed.

    Args:
        left: the columns that are left-aligned.
        line: draw a line below the first row.
    """
    widths = [max(len(row[n]) for row in rows if n < len(row)) for n in range(max(map(len, rows)))]
    lines = [
        "  ".join(f"{cell:<{width}}" if n in left else f"{cell:>{width}}" for n, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=False) for row in rows)
    ]
    lines = [text.rstrip() for text in lines]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]] if line else lines)
