"""``lrml export``: a model file as an ONNX graph."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from typing import Annotated, Any

import typer

from lrml.cli._options import Force, Json, Model, check_output, option, user_errors


@user_errors()
def export(
    model: Model,
    out: Annotated[str, typer.Argument(metavar="OUT.onnx", help="The file to write.")],
    top_k: Annotated[int | None, option("N", "Add the N best tags of every row to the outputs.")] = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Take features, even if the model takes texts.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
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
    from lrml.cli._console import answer

    check_output(out, "OUT.onnx", force=force, other=[model])
    exported = to_onnx(load(model), top_k=top_k, text=not no_text)
    content = exported.SerializeToString()
    write_atomically(out, content)
    graph = exported.graph
    ends = {"inputs": [_described(one) for one in graph.input]}
    ends["outputs"] = [_described(one) for one in graph.output]
    lines = [
        f"{side.capitalize()[:-1]} {one['name']}: {' × '.join(map(str, one['shape']))}, {one['type']}."
        for side, every in ends.items()
        for one in every
    ]
    document = {"file": out, "bytes": len(content), **ends}
    answer(document, f"Wrote {out} ({len(content) / 1e6:.1f} MB).", *lines, as_json=as_json)


def _described(value: Any) -> dict[str, Any]:
    from onnx import TensorProto

    tensor = value.type.tensor_type
    shape = [side.dim_param or side.dim_value for side in tensor.shape.dim]
    return {"name": value.name, "shape": shape, "type": TensorProto.DataType.Name(tensor.elem_type).lower()}
