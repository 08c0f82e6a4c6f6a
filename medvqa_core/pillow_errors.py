"""What Pillow raises when it opens or decodes a broken file: whatever a wrong field in it makes a decoder do."""

import struct
import zlib

from PIL import Image

# OSError covers "truncated" and "cannot identify", SyntaxError a broken PNG, the last one a file of absurd size.
PILLOW_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
