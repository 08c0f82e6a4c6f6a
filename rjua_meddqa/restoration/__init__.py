"""From an image of a report to structured text: reading (OCR), rectifying, quality, ESRA."""
