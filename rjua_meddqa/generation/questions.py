"""Image-content questions from annotations (paper, Sections 4.3.1, 4.3.2 and Table 4).

The released questions ask for every key, for 5 pairs of keys, for the result, the range, both, and the verdict of every
table row, and for the abnormal items of a table. The other rows of Table 4 and users' templates are optional.

The questions about an image depend on (seed, image path). Unanswerable questions also depend on the other images,
because they ask for their keys and items.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medvqa_core.errors import ConfigError, InputError
from rjua_meddqa import answers
from rjua_meddqa.generation.absent import AbsentTerms
from rjua_meddqa.generation.templates import (
    KEY,
    ROW,
    SUBJECTS,
    TABLE,
    TWO_KEYS,
    TWO_ROWS,
    Template,
    Templates,
    fill,
    split_text,
)
from rjua_meddqa.schema import LABORATORY, MISSING, Annotation, Question, TableRow
from rjua_meddqa.terms import KEYS, RANGES, RESULTS, Terms, fold

RELEASED, SENTENCE = ANSWER_STYLES = ("released", "sentence")
PAIRS = 5  # of keys per image, as released, but without repetition
NEAREST = "nearest"  # how unanswerable keys and items are chosen, see `absent.py`
UNANSWERABLE_FORMS = ("single_entity", "result_cell", "range_cell")


@dataclass(frozen=True)
class Options:
    """What to generate.

    Attributes:
        seed: the same seed draws the same questions for an image.
        forms: "released", "all", or comma-separated names of templates.
        answers: "released" (values) or "sentence" (Table 4).
        pairs: pairs of keys and of rows per image. None takes all ordered pairs.
        synonyms: call keys, results and ranges by any of their names.
        unanswerable: questions per image with the answer 无.

    Raises:
        ConfigError: a value is not allowed.
    """

    seed: int = 0
    forms: str = "released"
    answers: str = RELEASED
    pairs: int | None = PAIRS
    synonyms: bool = False
    unanswerable: int = 0

    def __post_init__(self) -> None:
        if self.answers not in ANSWER_STYLES:
            raise ConfigError(f"answers {self.answers!r} is unknown. Allowed: {', '.join(ANSWER_STYLES)}.")
        if self.unanswerable < 0 or (self.pairs is not None and self.pairs < 0):
            raise ConfigError(
                f"pairs {self.pairs} and unanswerable {self.unanswerable}: expected at least 0. For all pairs use "
                "None, or --pairs -1 on the command line."
            )


class QuestionGenerator:
    """Turns annotations into questions.

    Args:
        corpus: annotations with keys and items for unanswerable questions.

    Attributes:
        skipped: counts of omitted questions by reason, over all annotations so far.
    """

    def __init__(self, templates: Templates, terms: Terms, options: Options, corpus: Sequence[Annotation] = ()) -> None:
        self.templates, self.terms, self.options = templates, terms, options
        self.selected = templates.select(options.forms)
        self.skipped: Counter[str] = Counter()
        self._absent = AbsentTerms(templates, terms, corpus) if options.unanswerable else None

    def questions(self, annotation: Annotation) -> list[Question]:
        """The questions about one image: keys, pairs of keys, rows, table, unanswerable ones.

        Keys and items that are empty or repeated with different values are left out, and so are verdicts that cannot
        be read. `skipped` counts them.

        Raises:
            InputError: `img_path` is empty.
        """
        if not annotation.img_path.strip():
            raise InputError(f"annotation {annotation.idx!r}: img_path is empty. Fill it in.")
        keys = self._unique(annotation.key_values, "key")
        rows = self._unique([(row.item, row) for row in annotation.table], "item")
        return [
            *self._about_keys(annotation, keys),
            *self._about_rows(annotation, rows),
            *self._about_table(annotation),
            *self._unanswerable(annotation),
        ]

    def _unique(self, entries, what: str) -> list[tuple]:
        """(name, content) once per name, without ambiguous ones."""
        found: dict[str, list] = {}
        for name, content in entries:
            found.setdefault(name.strip(), []).append(content)
        unique = []
        for name, contents in found.items():
            if not name:
                self.skipped[f"empty_{what}"] += len(contents)
            elif any(content != contents[0] for content in contents):
                self.skipped[f"ambiguous_{what}"] += len(contents)
            else:
                unique.append((name, contents[0]))
        return unique

    def _about_keys(self, annotation: Annotation, keys: list[tuple[str, str]]) -> Iterator[Question]:
        values = {key: answers.write_value(value) for key, value in keys}
        for template in self._templates(KEY):
            for key in values:
                if self._wanted(template, key):
                    draw = self._random(annotation, template.name, key)
                    fields = {"key": self._name(key, values, draw), "value": values[key]}
                    yield self._ask(annotation, template, fields, (key,), draw)
        for template in self._templates(TWO_KEYS):
            wanted = [key for key in values if self._wanted(template, key)]
            draw = self._random(annotation, template.name)
            for pair in self._pairs(wanted, draw):
                fields = {f"value{n}": values[key] for n, key in enumerate(pair, start=1)}
                fields |= {f"key{n}": self._name(key, values, draw) for n, key in enumerate(pair, start=1)}
                yield self._ask(annotation, template, fields, pair, draw)

    def _about_rows(self, annotation: Annotation, rows: list[tuple[str, TableRow]]) -> Iterator[Question]:
        fields = {item: self._row_fields(row) for item, row in rows}
        for item, values in fields.items():
            words = self._words(self._random(annotation, "words", item))  # shared by all questions about this row
            for template in self._templates(ROW):
                if self._wanted(template, item) and not self._lacks_status(template, values):
                    draw = self._random(annotation, template.name, item)
                    yield self._ask(annotation, template, {**words, **values}, (item,), draw)
        for template in self._templates(TWO_ROWS):
            wanted = [item for item in fields if self._wanted(template, item)]
            draw = self._random(annotation, template.name)
            for pair in self._pairs(wanted, draw):
                values = {f"{name}{n}": v for n, item in enumerate(pair, start=1) for name, v in fields[item].items()}
                if not self._lacks_status(template, values):
                    yield self._ask(annotation, template, values, pair, draw)

    def _about_table(self, annotation: Annotation) -> Iterator[Question]:
        rows, templates = annotation.table, self._templates(TABLE)
        if not rows or not templates:
            return
        unreadable = any(answers.write_status(row) is None for row in rows)
        if unreadable or not all(row.item.strip() for row in rows):
            self.skipped["table_with_unreadable_is_normal" if unreadable else "table_with_empty_item"] += len(templates)
            return
        abnormal = [row for row in rows if answers.write_status(row) == answers.ABNORMAL_WORD]
        fields = {
            "items": answers.join_parts(row.item for row in rows),
            "item_count": str(len(rows)),
            "abnormal_items": answers.write_abnormal(rows),
            "abnormal_count": str(len(abnormal)),
        }
        for template in templates:
            yield self._ask(annotation, template, fields, (), self._random(annotation, template.name))

    def _unanswerable(self, annotation: Annotation) -> Iterator[Question]:
        if self._absent is None:
            return
        draw = self._random(annotation, "unanswerable")
        forms = UNANSWERABLE_FORMS if annotation.table else UNANSWERABLE_FORMS[:1]
        candidates = {KEY: self._absent.keys(annotation, draw), ROW: self._absent.items(annotation, draw)}
        ended: set[str] = set()
        for number in range(self.options.unanswerable):
            form = forms[number % len(forms)]
            template = self.templates.by_name[form]
            name = next(candidates[template.about], None)
            if name is None:
                ended.add(form)
                if len(ended) == len(forms):
                    self.skipped["no_absent_term_left"] += self.options.unanswerable - number
                    return
                self.skipped["no_absent_term_left"] += 1
                continue
            fields = {SUBJECTS[template.about][0]: name, "value": MISSING, "result": MISSING, "range": MISSING}
            yield self._ask(annotation, template, fields, (name,), draw, unanswerable=True)

    def _ask(
        self,
        annotation: Annotation,
        template: Template,
        fields: dict[str, str],
        subjects: Sequence[str],
        draw: random.Random,
        unanswerable: bool = False,
    ) -> Question:
        values = {**self._words(draw), **fields}
        wording = template.sentence if self.options.answers == SENTENCE and not unanswerable else template.answer
        answer = fill(wording, values)
        return Question(
            img_path=annotation.img_path,
            question=fill(draw.choice(template.questions), values),
            answer=answer,
            task=template.task,
            answer_type=template.answer_type,
            image_type=annotation.image_type,
            is_table=int(bool(annotation.table) or annotation.report_type.strip() == LABORATORY),
            image_quality=annotation.image_quality,
            answer_length=len(answer),
            extra={"template": template.name, "keys": list(subjects), "unanswerable": unanswerable}
            | ({"absent": NEAREST} if unanswerable else {}),
        )

    def _templates(self, about: str) -> list[Template]:
        return [template for template in self.selected if template.about == about]

    def _wanted(self, template: Template, name: str) -> bool:
        terms = {fold(self.terms.canonical(KEYS, word)) for word in template.only}
        return not terms or fold(self.terms.canonical(KEYS, name)) in terms

    def _pairs(self, names: list[str], draw: random.Random) -> list[tuple[str, str]]:
        pairs = [(first, second) for first in names for second in names if first != second]
        if self.options.pairs is None:
            return pairs
        return draw.sample(pairs, min(self.options.pairs, len(pairs)))

    def _name(self, key: str, keys: dict[str, str], draw: random.Random) -> str:
        """The name of `key` in a question. Synonyms are used if no other key of the report has that meaning."""
        if not self.options.synonyms:
            return key
        others = [other for other in keys if other != key]
        term = self.terms.canonical(KEYS, key)
        if any(self.terms.canonical(KEYS, other) == term for other in others):
            return key
        taken = {fold(other) for other in others}
        return draw.choice([name for name in self.terms.synonyms(KEYS, key) if fold(name) not in taken])

    def _words(self, draw: random.Random) -> dict[str, str]:
        choices = dict(self.templates.words)
        if self.options.synonyms:
            for word, kind in (("result_word", RESULTS), ("range_word", RANGES)):
                choices[word] = self.terms.synonyms(kind, choices[word][0])
        return {word: draw.choice(choices[word]) for word in sorted(choices)}

    def _row_fields(self, row: TableRow) -> dict[str, str]:
        fields = {"result": answers.write_value(row.result), "range": answers.write_value(row.range)}
        status = answers.write_status(row)
        return {"item": row.item.strip(), **fields, **({"status": status} if status else {})}

    def _lacks_status(self, template: Template, values: dict[str, str]) -> bool:
        """Whether the template needs a status that could not be read."""
        texts = (*template.questions, template.answer, template.sentence)
        needed = {name for text in texts for _, name in split_text(text) if name and name.rstrip("12") == "status"}
        lacks = bool(needed - set(values))
        if lacks:
            self.skipped["unreadable_is_normal"] += 1
        return lacks

    def _random(self, annotation: Annotation, *what: str) -> random.Random:
        return random.Random("\0".join((str(self.options.seed), annotation.img_path, *what)))
