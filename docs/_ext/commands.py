"""Pages about the commands, made of the program itself."""

from pathlib import Path

import typer

from lrml.cli import _program


def setup(app):
    """Write the pages before Sphinx reads any."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app):
    """Write a page for each command, and a list of them."""
    folder = Path(app.srcdir) / "commands"
    folder.mkdir(exist_ok=True)
    for name, command in _program().commands.items():
        write_if_new(folder / f"{name}.md", "\n".join(page(f"lrml {name}", command)))


def write_if_new(path, text):
    """Leave a page as it is that says the same: Sphinx reads changed files again."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def page(name, command, level=1):
    """Yield the lines of a command, and of those inside it."""
    yield f"{'#' * level} {name}\n"
    inner = getattr(command, "commands", {})
    context = typer.Context(command, info_name=name)
    yield f"```text\n{' '.join(command.get_usage(context).split())}\n```\n"
    yield from prose(command.help or "")
    table = [row for parameter in command.params for row in rows(parameter, context)]
    if table:
        yield "| option | |\n| --- | --- |"
        yield from (f"| {option} | {text} |" for option, text in table)
        yield ""
    for inside, one in inner.items():
        yield from page(f"{name} {inside}", one, level + 1)


def prose(text):
    """Yield paragraphs; those that keep their lines are examples."""
    for part in text.strip().split("\n\n"):
        lines = part.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            yield "\n".join(["```text", *lines[1:], "```", ""])
        else:
            yield part + "\n"


def rows(parameter, context):
    """Yield what the help says of an option or argument."""
    record = parameter.get_help_record(context)
    if record is None:
        yield f"`{parameter.human_readable_name}`", (getattr(parameter, "help", "") or "").replace("|", "\\|")
    else:
        option, text = (" ".join(part.split()) for part in record)
        yield f"`{option}`".replace("|", "\\|"), text.replace("|", "\\|").replace("<", "\\<")
