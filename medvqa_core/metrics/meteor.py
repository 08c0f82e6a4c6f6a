"""METEOR 1.5 (Denkowski and Lavie 2014): the authors' Java program, run as a subprocess.

It needs the jar in pycocoevalcap (extra `meteor`) and Java. `missing()` returns what is missing.

Protocol of `-stdio`: `SCORE ||| reference ||| … ||| hypothesis` answers one line of statistics,
`EVAL ||| statistics ||| …` one score per segment and then the score of the whole.
Arguments (`-l en -norm`) and use are those of pycocoevalcap.
"""

import contextlib
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError
from medvqa_core.install_hint import install
from medvqa_core.metrics.ptb_tokenizer import tokenize
from medvqa_core.metrics.scores import Scores, Tokenizer, check_pairs
from medvqa_core.progress import track

VERSION = "1.5"
SEPARATOR = "|||"
_CLOSING_SECONDS = 10


def find_jar() -> Path | None:
    """The jar of METEOR 1.5 inside an installed pycocoevalcap."""
    spec = importlib.util.find_spec("pycocoevalcap")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, "meteor", f"meteor-{VERSION}.jar")
        if path.is_file():
            return path
    return None


def missing() -> str | None:
    """Why METEOR cannot be computed and what to do, or None."""
    if find_jar() is None:
        return f"METEOR left out: its program is not installed. Run: {install('meteor')}"
    if shutil.which("java") is None:
        return "METEOR left out: METEOR 1.5 is a Java program and no `java` was found. Install a Java runtime"
    return None


class Meteor:
    """A running METEOR program. Use it as a context manager.

    Raises:
        ConfigError: Java or the jar is missing, or the program stopped.
    """

    def __enter__(self) -> "Meteor":
        reason = missing()
        if reason:
            raise ConfigError(reason)
        # The encoding and number format must not depend on the locale.
        java = ["java", "-Xmx2G", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"]
        self._errors = tempfile.TemporaryFile()  # a pipe would block the program once it is full
        self._process = subprocess.Popen(
            [*java, "-jar", str(find_jar()), "-", "-", "-stdio", "-l", "en", "-norm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            errors="surrogatepass",
        )
        assert self._process.stdin and self._process.stdout  # both are pipes
        self._to_java, self._from_java = self._process.stdin, self._process.stdout
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with contextlib.suppress(BrokenPipeError):
                self._to_java.close()
            try:
                self._process.wait(_CLOSING_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        finally:
            self._from_java.close()
            self._errors.close()

    def score(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, list[float]]:
        """The corpus score and one per pair, for texts of words between spaces."""
        statistics = []
        pairs = zip(predictions, references, strict=True)
        for prediction, texts in track(pairs, "METEOR", len(predictions)):
            fields = [*map(_clean, texts), _clean(prediction)]
            statistics.append(self._ask(f" {SEPARATOR} ".join(["SCORE", *fields])))
        first = self._ask(f" {SEPARATOR} ".join(["EVAL", *statistics]))
        values = [float(first), *(float(self._read()) for _ in predictions)]
        return values[-1], values[:-1]

    def _ask(self, line: str) -> str:
        try:
            self._to_java.write(line + "\n")
            self._to_java.flush()
        except BrokenPipeError:
            self._fail()
        return self._read()

    def _read(self) -> str:
        line = self._from_java.readline()
        if not line:
            self._fail()
        return line.strip()

    def _fail(self) -> None:
        self._process.wait(_CLOSING_SECONDS)
        self._errors.seek(0)
        words = self._errors.read()[-300:].decode("utf-8", "replace").strip()
        raise ConfigError(f"the METEOR program ended with code {self._process.returncode}: {words or 'no message'}")


def _clean(text: str) -> str:
    return " ".join(text.replace(SEPARATOR, " ").split())


def meteor_scores(
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenizer: Tokenizer = tokenize,
) -> Scores:
    """`meteor`; the corpus value is the program's own, from the statistics of all pairs.

    Raises:
        ConfigError: Java or the jar is missing, or the program failed.
        InputError: see `check_pairs`.
    """
    lists = check_pairs(predictions, references)
    with Meteor() as meteor:
        corpus, samples = meteor.score(
            [" ".join(tokenizer(text)) for text in predictions],
            [[" ".join(tokenizer(text)) for text in texts] for texts in lists],
        )
    return Scores({"meteor": corpus}, {"meteor": samples})
