"""A page of text in two columns: labels on the left, what they say on the right, wrapped and without a frame.

Everything goes through `rich.text.Text`, so that no log text is ever read as markup, and through `visible`, so that
none reaches the terminal as an order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from correlator.reports.cleaning import visible

LABEL_WIDTH = 14
PROSE_WIDTH = 100
"""Sentences are not drawn wider than this: long lines are hard to read."""
MINIMUM_WIDTH = 24

Part = str | tuple[str, str]
"""A text, or a text with its style."""


def styled(*parts: Part) -> Text:
    """One line of several parts, each made visible first."""
    text = Text()
    for part in parts:
        words, style = (part, "") if isinstance(part, str) else part
        text.append(visible(words), style)
    return text


class Page:
    """Writes lines to a stream, at a width, with or without colours."""

    def __init__(self, out: TextIO, *, width: int, color: bool) -> None:
        self.width = max(width, MINIMUM_WIDTH)
        self._begun = False
        self._console = Console(
            file=out,
            width=self.width,
            force_terminal=color,
            color_system="standard" if color else None,
            no_color=not color,
            force_jupyter=False,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def gap(self) -> None:
        """An empty line."""
        self._emit(Text())

    def heading(self, title: str, note: str = "") -> None:
        """An empty line (not at the top), then the title of a section with an optional note beside it."""
        if self._begun:
            self.gap()
        self.block(styled((title, "bold"), "   " if note else "", (note, "dim")))

    def field(self, label: Part, body: Text) -> None:
        """A label and its words. An empty label continues the field above."""
        self.block(body, label=styled(label if isinstance(label, tuple) else (label, "dim")), prose=True)

    def row(self, label: Part, body: Text, *, indent: int, max_lines: int | None = None) -> None:
        """A row of a section: the label two columns in, the body from `indent` on."""
        self.block(body, label=styled("  ", label), indent=indent, max_lines=max_lines)

    def block(
        self,
        body: Text,
        *,
        label: Text | None = None,
        indent: int | None = None,
        prose: bool = False,
        max_lines: int | None = None,
    ) -> None:
        """Wrapped text with a hanging indent; past `max_lines` it ends in an ellipsis."""
        if indent is None:
            indent = 0 if label is None else LABEL_WIDTH
        indent = min(indent, self.width // 2)
        room = max((min(self.width, PROSE_WIDTH) if prose else self.width) - indent, MINIMUM_WIDTH // 2)
        lines = list(body.wrap(self._console, room, overflow="fold"))
        if max_lines is not None and len(lines) > max_lines:
            rest = Text().join(lines[max_lines - 1 :])
            rest.truncate(room, overflow="ellipsis")
            lines[max_lines - 1 :] = [rest]
        head = label or Text()
        if cell_len(head.plain) >= indent > 0:
            for line in head.wrap(self._console, self.width, overflow="fold"):
                self._emit(line)
            head = Text()
        for line in lines or [Text()]:
            head.pad_right(max(indent - cell_len(head.plain), 0))
            self._emit(head + line)
            head = Text()

    def command(self, command: str, *, indent: int = LABEL_WIDTH) -> None:
        """A shell command. It is never wrapped by us, so that it can be copied whole."""
        self._emit(styled(" " * indent, ("$ ", "dim"), (command, "cyan")))

    def list_items(self, items: Iterable[str], *, mark: str = "-") -> None:
        """A list, one item a paragraph."""
        for item in items:
            self.block(styled(item), label=styled("  ", (mark, "dim")), indent=4, prose=True)

    def _emit(self, line: Text) -> None:
        line.rstrip()
        self._begun = True
        self._console.print(line, no_wrap=True, overflow="ignore", crop=False)
