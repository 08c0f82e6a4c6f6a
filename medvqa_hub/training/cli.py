"""`medvqa-hub train …`. Heavy imports wait until a command runs."""

import typer

app = typer.Typer(no_args_is_help=True, help="Train a model from a recipe.")


@app.callback()
def _group() -> None:
    pass
