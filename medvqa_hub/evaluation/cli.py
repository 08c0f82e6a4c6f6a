"""`medvqa-hub evaluate …`. Heavy imports wait until a command runs."""

import typer

app = typer.Typer(no_args_is_help=True, help="Score a model: predictions first, then tables from them.")


@app.callback()
def _group() -> None:
    pass
