"""Your own OCR in place of the built-in one: any object with `name`, `version`, `settings` and `read`."""

import sys
from pathlib import Path

from PIL import Image

from medvqa_core.governance import Governance
from rjua_meddqa.restoration.pages import read_pages, restore_folder
from rjua_meddqa.schema import Box


class OwnOcr:
    """Returns fixed boxes. Call your OCR here, and return what it finds on the image that it is given."""

    name, version = "own-ocr", "1.0"  # results are cached by name, version and settings
    settings = {"language": "ch"}

    def read(self, image: Image.Image) -> list[Box]:
        """Boxes of an RGB image, one for each piece of a line: four corners (x, y) in its pixels from the left top
        clockwise, text, and confidence from 0 to 1 (1 if unknown). Called again for the rectified page."""
        found = [
            ([(10, 10), (90, 10), (90, 30), (10, 30)], "钾", 0.99),
            ([(120, 10), (180, 10), (180, 30), (120, 30)], "4.1", 0.98),
        ]
        return [Box(tuple(corners), text, score) for corners, text, score in found]


out = Path(sys.argv[1])
(out / "photos").mkdir(parents=True, exist_ok=True)
Image.new("RGB", (400, 300), "white").save(out / "photos" / "report.png")
restore_folder(out / "photos", out / "pages", OwnOcr(), governance=Governance.CREDENTIALED)
for page in read_pages(out / "pages"):
    print(page.image, "->", page.restored.text)
