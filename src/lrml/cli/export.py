"""``lrml export``: a model file as an ONNX graph."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from typing import Annotated, Any

import typer

from lrml.cli._options import Force, Model, check_output, command, option


@command()
def export(
    model: Model,
    out: Annotated[str, typer.Argument(metavar="OUT.onnx", help="The file to write.")],
    top_k: Annotated[int | None, option("N", "Add the N best tags of every row to the outputs.")] = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Take features, even if the model takes texts.")
    ] = False,
    force: Force = False,
) -> Any:
    """Write a model as ONNX, for runtimes without Python.

    The graph of a model for texts takes texts, if ONNX operators can cut them into words as the model does.
    It then needs onnxruntime.

    \b
    For example:
      lrml export articles.lrml articles.onnx --top-k 5
      lrml export articles.lrml features.onnx --no-text
    """
    from lrml import load, to_onnx
    from lrml._files import write_atomically

    check_output(out, "OUT.onnx", force=force, other=[model])
    exported = to_onnx(load(model), top_k=top_k, text=not no_text)
    content = exported.SerializeToString()
    write_atomically(out, content)
    ends = {"inputs": exported.graph.input, "outputs": exported.graph.output}
    names = {side: [one.name for one in every] for side, every in ends.items()}
    lines = (f"{side}: {', '.join(every)}" for side, every in names.items())
    document = {"file": out, "bytes": len(content), **names}
    return document, f"wrote {out}: {len(content):,d} bytes", *lines
