"""`medvqa-hub meddqa …`: the steps from report images to questions. Heavy imports wait until a step runs."""

import typer

app = typer.Typer(
    no_args_is_help=True, help="RJUA-MedDQA: from photographed reports to text, annotation and questions."
)


@app.callback()
def _group() -> None:
    pass
