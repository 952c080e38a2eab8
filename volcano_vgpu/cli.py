"""``hami-plugins volcano-vgpu``: the node agent and what belongs to it."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="volcano-vgpu",
    help="The node agent for clusters scheduled by Volcano.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def volcano_vgpu() -> None:
    """The node agent for clusters scheduled by Volcano."""
