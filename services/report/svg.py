"""Small drawings as SVG text: axes, bars, lines, points and a legend; nothing to load, nothing to run, sharp on paper.

A report must open without a network, print, and stay small enough to mail. plotly's script alone is 4.5 MB and puts
nothing on paper without a browser that runs it; matplotlib is heavier than the whole core. Three kinds of marks are
enough here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

INK, GRID = "#333333", "#dddddd"
WIDTH_PX = 720.0
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 66.0, 14.0, 10.0, 42.0
ROW_PX, SIGN_PX, LETTER_PX = 17.0, 40.0, 6.9  # of the legend; letters are narrower than this on average
HATCHES = {"/": "M0,5L5,0", "x": "M0,0L5,5M0,5L5,0"}

Points = Iterable[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to pixels along one axis."""

    low: float
    high: float
    begin_px: float
    end_px: float

    def px(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.begin_px + (value - self.low) / span * (self.end_px - self.begin_px)

    def ticks(self, about: int = 6) -> list[float]:
        """Round values within the range."""
        raw = (self.high - self.low or 1.0) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


@dataclass
class Panel:
    """One pair of axes; marks are drawn in the order in which they are added, and cut off outside of `x` and `y`.

    Attributes:
        key: distinguishes panels of one document, as SVG ids are global there.
        x, y: what the axes show.
        legend_rows: room kept above the axes for the legend.
        percent: label y as per cent.
    """

    key: str
    x_title: str
    y_title: str
    x: tuple[float, float]
    y: tuple[float, float]
    height_px: float = 260.0
    legend_rows: int = 1
    percent: bool = False
    _marks: list[str] = field(default_factory=list)
    _signs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def across(self) -> Scale:
        return Scale(*self.x, LEFT_PX, WIDTH_PX - RIGHT_PX)

    @property
    def up(self) -> Scale:
        return Scale(*self.y, self.height_px - BOTTOM_PX, TOP_PX + self.legend_rows * ROW_PX)

    def bars(self, bars: Points, width: float, colour: str, name: str, hatch: str = "") -> None:
        """Bars from zero, `width` wide in units of x; `hatch` is the second cue beside the colour: `/`, `x` or none."""
        fill = colour
        if hatch:
            fill = f"url(#{self.key}-{len(self._signs)})"
            self._marks.append(
                f'<pattern id="{self.key}-{len(self._signs)}" width="5" height="5" patternUnits="userSpaceOnUse">'
                f'<rect width="5" height="5" fill="{colour}"/><path d="{HATCHES[hatch]}" stroke="white"/></pattern>'
            )
        across, zero = self.across, self.up.px(0.0)
        wide = max(0.8, across.px(width) - across.px(0.0))
        path = "".join(
            f"M{across.px(at) - wide / 2:.1f},{zero:.1f}v{self.up.px(height) - zero:.1f}h{wide:.2f}V{zero:.1f}z"
            for at, height in bars
        )
        self._marks.append(f'<path d="{path}" fill="{fill}"/>')
        self._signs.append((name, f'<rect y="-10" width="18" height="11" fill="{fill}"/>'))

    def line(self, points: Points, colour: str, name: str = "", *, dash: str = "", wide_px: float = 2.0) -> None:
        """A line through points; without a name it stays out of the legend."""
        style = f'stroke="{colour}" stroke-width="{wide_px:g}" fill="none"' + (
            f' stroke-dasharray="{dash}"' if dash else ""
        )
        path = "L".join(f"{self.across.px(x):.1f},{self.up.px(y):.1f}" for x, y in points)
        if path:
            self._marks.append(f'<path d="M{path}" {style}/>')
        if name:
            self._signs.append((name, f'<path d="M0,-5H20" {style}/>'))

    def points(self, points: Points, colour: str, name: str, shape: str = "circle") -> None:
        """Single points; a shape is `circle`, `cross`, `diamond` or `tick`."""
        for x, y in points:
            at = f"translate({self.across.px(x):.1f},{self.up.px(y):.1f})"
            self._marks.append(f'<g transform="{at}">{_shape(shape, colour)}</g>')
        self._signs.append((name, f'<g transform="translate(9,-5)">{_shape(shape, colour)}</g>'))

    def upright(self, x: float, label: str, row: int = 0) -> None:
        """A vertical line with words at its top; on another row where they would meet those of a neighbour."""
        at, top = self.across.px(x), self.up.end_px
        end = at > WIDTH_PX * 0.75  # a word near the right edge stands on the other side
        self._marks.append(
            f'<path d="M{at:.1f},{self.up.begin_px:g}V{top:g}" stroke="{INK}" stroke-dasharray="2,3"/>'
            f'<text x="{at + (-4 if end else 4):.1f}" y="{top + 11 + row * ROW_PX:g}" '
            f'text-anchor="{"end" if end else "start"}">{escape(label)}</text>'
        )

    def svg(self) -> str:
        """What belongs into an `svg` element; the caller places it."""
        across, up = self.across, self.up
        box = f'x="{LEFT_PX:g}" y="{up.end_px:g}" width="{across.end_px - LEFT_PX:g}"'
        return (
            f'<clipPath id="{self.key}-clip"><rect {box} height="{up.begin_px - up.end_px:g}"/></clipPath>'
            f'{self._axes()}<g clip-path="url(#{self.key}-clip)">{"".join(self._marks)}</g>{self._legend()}'
        )

    def _axes(self) -> str:
        across, up = self.across, self.up
        parts = []
        for value in up.ticks(5):
            y = up.px(value)
            parts.append(f'<path d="M{LEFT_PX:g},{y:.1f}H{across.end_px:g}" stroke="{GRID}"/>')
            parts.append(_text(LEFT_PX - 6, y + 4, _label(value, self.percent), "end"))
        for value in across.ticks(8):
            parts.append(_text(across.px(value), up.begin_px + 15, _label(value)))
        parts.append(f'<path d="M{LEFT_PX:g},{up.begin_px:g}H{across.end_px:g}" stroke="{INK}"/>')
        middle = (up.begin_px + up.end_px) / 2
        parts.append(_text((LEFT_PX + across.end_px) / 2, self.height_px - 8, self.x_title))
        parts.append(f'<g transform="translate(14,{middle:g}) rotate(-90)">{_text(0, 0, self.y_title)}</g>')
        return "".join(parts)

    def _legend(self) -> str:
        parts, x, row = [], LEFT_PX, 0
        for name, sign in self._signs:
            wide = SIGN_PX + LETTER_PX * len(name)
            if x > LEFT_PX and x + wide > WIDTH_PX - RIGHT_PX:
                x, row = LEFT_PX, row + 1
            at = f"translate({x:.1f},{TOP_PX + 4 + row * ROW_PX:g})"
            parts.append(f'<g transform="{at}">{sign}{_text(24, -1, name, "start")}</g>')
            x += wide
        return "".join(parts)


def document(panels: Sequence[Panel], label: str) -> str:
    """Panels below each other as one `svg` element; `label` says in a sentence what is to be seen."""
    parts, y = [], 0.0
    for panel in panels:
        parts.append(f'<g transform="translate(0,{y:g})">{panel.svg()}</g>')
        y += panel.height_px
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX:g} {y:g}" role="img" '
        f'aria-label="{escape(label)}" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _label(value: float, percent: bool = False) -> str:
    if percent:
        return f"{value * 100:.4g} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _shape(shape: str, colour: str) -> str:
    stroke = f'stroke="{colour}" stroke-width="2" fill="none"'
    return {
        "circle": f'<circle r="3" fill="{colour}"/>',
        "cross": f'<path d="M-5,-5L5,5M-5,5L5,-5" {stroke}/>',
        "diamond": f'<path d="M0,-7L6,0L0,7L-6,0z" fill="{colour}"/>',
        "tick": f'<path d="M0,-5V5" {stroke}/>',
    }[shape]
