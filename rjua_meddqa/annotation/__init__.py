"""Annotations of report images: drafts for annotators, verdicts by reference range, and quality checks.

The package works on text with boxes (`schema.RestoredText`). From the bottom up:

- `number_text`, `intervals`, `groups`, `range_labels`, `ranges`, `result_units`, `word_results`: parse the numbers,
  units, reference ranges, patient groups and words of table cells.
- `normality.judge`: the verdict for a result and its range: 是, 否(偏高), 否(偏低), 否 or 无法判断.
- `cells`, `report_words`: boxes as cells in rows, and the vocabulary of headers and keys.
- `draft_columns`, `draft_row_blocks`, `draft_headerless`, `draft_tables`, `draft_rows`: read
  tables from cells.
- `draft_fields`: reads key-values from the remaining cells.
- `drafts.draft`: a page's key-values and table rows with verdicts. Start reading here.
- `draft_check`: compares a draft with an annotation.
- `text_differences`: the differences between an annotated and a printed text that matter.
- `page_check`, `checking`: the quality check of annotations, with or without their pages.
- `items.find_row`: the table row that a question asks for.
- `labelstudio`: exchange with Label Studio.
"""
