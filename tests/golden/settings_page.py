"""The page about settings: ``python -m tests.golden.settings_page`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hami_plugins.cli.about import found_settings
from hami_plugins.config.reference import Setting, SettingsProgram

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
INTRODUCTION = """\
# Settings

For operators: every setting of the command line, the agent and the servers. `hami-plugins settings` prints the same.

```sh
hami-plugins settings                  # all
hami-plugins settings volcano.queue    # those whose key begins so
hami-plugins settings volcano-vgpu-agent    # those of one program
hami-plugins settings -o json          # for programs
```

Files are YAML; a key such as `scheduler.name` is a path in it:

```yaml
version: 1
scheduler: {name: my-scheduler}
```

A variable wins over the file. Its name is the key in capitals, with `_` between words and `__` for each dot. Its value
is text, or JSON for lists and mappings: `HAMI_PLUGINS__VOLCANO_VGPU__EXCLUDE__INDEXES='[0, 1]'`. Members of lists have
no variable of their own. An unknown key or variable, or a wrong value, stops the program with exit code 2.

| program | file | commands | variables begin with |
| --- | --- | --- | --- |
"""
TITLE = "| key | values | default | meaning |\n| --- | --- | --- | --- |\n"


def page() -> str:
    """The page with the settings as the programs have them."""
    found = found_settings("")
    rows = "".join(
        f"| [{program.name}](#{program.name}) | `{program.option}` | `{'`, `'.join(program.commands.split(', '))}` "
        f"| `{program.prefix}` |\n"
        for program, _ in found
    )
    return INTRODUCTION + rows + "".join("".join(_section(program, settings)) for program, settings in found)


def _section(program: SettingsProgram, settings: Sequence[Setting]) -> Iterator[str]:
    yield f"\n## {program.name}\n\n"
    example = next(each for each in settings if "." in each.key and not each.key.islower())
    yield f"The variable of `{example.key}` is `{example.variable}`.\n\n"
    yield TITLE
    for each in settings:
        default = each.default if each.default in {"required", "not set"} else f"`{each.default}`"
        yield f"| `{each.key}` | {each.values} | {default} | {each.meaning} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
