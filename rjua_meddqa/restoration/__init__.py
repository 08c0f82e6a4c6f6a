"""Restores report images to structured text: OCR, rectification, quality, ESRA."""
