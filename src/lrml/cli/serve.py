"""``lrml serve``: a model file behind HTTP."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lrml.cli import INTERRUPTED
from lrml.cli._options import Json, Model, advise, answer, command, option
from lrml.cli._rows import opened

_LOCAL = ("127.0.0.1", "localhost", "::1")


@command()
def serve(
    model: Model,
    host: Annotated[
        str, option("ADDRESS", "Where to listen: on this machine alone by default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 for any free one.")
    ] = 8000,
    max_batch: Annotated[int, option("N", "Texts or rows in one request.")] = 256,
    max_body: Annotated[int, option("BYTES", "Size of one request.")] = 1 << 20,
    as_json: Json = False,
) -> None:
    """Answer requests for tags, and show a page to try the model, until Ctrl-C.

    POST /predict takes {"texts": ["…"], "k": 5}, or {"rows": [[…]]} for a model of numbers; GET /model and
    GET /health tell about the model and the server. A model of texts also answers as a project of Annif, at
    /v1/projects/NAME/suggest, where NAME is that of the file without its ending.

    \b
    For example:
      lrml serve articles.lrml
      lrml serve articles.lrml --host 0.0.0.0 --port 80
    """
    from lrml.serving import make_app, run_app

    fitted, summary = opened(model)
    app = make_app(fitted, name=Path(model).stem, summary=summary, max_batch=max_batch, max_body=max_body)

    def ready(address: str) -> None:
        told = f"Serving {model} at {address} (Ctrl-C stops it)."
        answer({"address": address, "model": model}, told, as_json=as_json)
        sys.stdout.flush()  # whoever has started this reads the address from a pipe
        if host not in _LOCAL:
            advise(f"Everybody who can reach {host} may ask: there is no password and no encryption.")

    try:
        run_app(app, host, port, ready=ready)
    except KeyboardInterrupt:
        advise("Stopped. Running requests were finished.")
        raise typer.Exit(INTERRUPTED) from None
