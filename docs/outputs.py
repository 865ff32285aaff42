"""Run the Python blocks of pages, and write what they print into the text blocks that follow them.

``python docs/outputs.py docs/index.md docs/howto.md``. A text block that is marked ``log`` has the
log lines of the call too, all but those on compilation.
"""

import io
import logging
import re
import sys
import textwrap
from contextlib import redirect_stdout
from pathlib import Path

WIDTH = 88
BLOCK = re.compile(r"```(python|text(?: log)?)\n(.*?)```", re.S)


def run(code: str, names: dict) -> tuple[str, str]:
    """Run a block without progress bars; return what it printed, and its log lines."""
    printed, logged = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    handler.addFilter(lambda record: not record.getMessage().startswith("Compiling"))
    logger = logging.getLogger("pymc.bdmc")
    logger.addHandler(handler)
    try:
        with redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), names)
    finally:
        logger.removeHandler(handler)
    return printed.getvalue(), logged.getvalue()


def wrapped(text: str) -> str:
    """Wrap long lines of prose; tables stay as they are."""
    lines = text.splitlines()
    return "\n".join(
        line if "  " in line else textwrap.fill(line, WIDTH, break_on_hyphens=False)
        for line in lines
    )


def renewed(page: str) -> str:
    """Return the page with the output of its blocks, which run in one namespace."""
    names: dict = {}
    printed = logged = ""

    def replace(block: re.Match) -> str:
        nonlocal printed, logged
        kind, text = block.groups()
        if kind == "python":
            printed, logged = run(
                re.sub(r"(?<!\d, )(random_seed=\d+)", r"\1, progressbar=False", text), names
            )
            return block.group()
        found = logged + printed if kind == "text log" else printed
        return f"```{kind}\n{wrapped(found)}\n```"

    return BLOCK.sub(replace, page)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(renewed(page.read_text()))
