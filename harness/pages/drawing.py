"""The figure of an assessment as a picture, for a page or as a file."""

from __future__ import annotations

import base64
import io
import re
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.figures.style import new_figure, stamp, styled
from harness.measurement import Origin
from harness.pages.assessment import Assessment, assess
from harness.pages.walk import named
from harness.results.record import Profile, point_key
from harness.results.store import Campaign

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: Mapping[str, Mapping[str, Any]] = {
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"dpi": 300},
    "svg": {"metadata": {"Date": None}},
}
"""Each format with its arguments of ``savefig``: the same records give the same bytes."""
TEXT_AS_TEXT = {"svg.fonttype": "none"}
"""Settings of a figure whose text stays text, which a reader can search, and in fewer bytes."""
_LARGEST_INLINE_SVG = 250_000

Picture = tuple[str, bytes]
"""A figure's kind ("svg+xml", or "png" where that would be too large) and its bytes."""


@dataclass(frozen=True, slots=True)
class Undrawable:
    """The error that is shown in place of a figure."""

    error: str


Attempt = Picture | Undrawable


def drawn(judged: Assessment) -> Figure:
    """Return the figure with the words that a reader must not miss.

    Call it, and save the figure, inside `styled`."""
    experiment = judged.experiment
    assert judged.table is not None
    figure = new_figure(experiment.figure_size_in)
    experiment.draw(judged.table, figure)
    words = [] if experiment.origin is Origin.MEASURED else [experiment.origin.value]
    if judged.profile.value != "paper":
        words.append(f"{judged.profile.value} profile")
    if not judged.campaign.complete:
        words.append("incomplete")
    runs = Counter(point_key(record.point, 0) for record in judged.campaign.valid).values()
    if max(runs, default=1) > 1:
        words.append(f"{'–'.join(str(n) for n in sorted({min(runs), max(runs)}))} runs a point")
    stamp(figure, " · ".join(words))
    return figure


def attempt_of(experiment: str, profile: Profile, campaign: Campaign) -> Attempt:
    """Judge a campaign and draw its figure, in a process that has done neither."""
    (known,) = named(experiment)
    return attempt(assess(known, profile, campaign))


def attempt(judged: Assessment, **look: Any) -> Attempt:
    """Draw the experiment's figure; an error of the drawing is a message in its place.

    ``look``: further arguments of `picture`."""
    try:
        return picture(judged, **look)
    except Exception:
        return Undrawable(traceback.format_exc(limit=-3))


def picture(judged: Assessment, *, raster: str = "png", dpi: int = 150) -> Picture:
    """Return the experiment's figure, as SVG unless that is large; then as ``raster``."""
    with styled():
        figure = drawn(judged)
        svg = saved(figure, "svg")
        if len(svg) <= _LARGEST_INLINE_SVG:
            return "svg+xml", svg
        return raster, saved(figure, raster, dpi=dpi)


def light_picture(judged: Assessment) -> Attempt:
    """Draw a figure for a page that many readers fetch: text as text, in few bytes."""
    with styled(TEXT_AS_TEXT):
        made = attempt(judged, raster="webp", dpi=130)
    if isinstance(made, Undrawable) or made[0] != "svg+xml":
        return made
    return "svg+xml", lightened(made[1])


def drawing(
    draw: Callable[[Figure], None], size_in: tuple[float, float], kind: str = "svg", **look: Any
) -> bytes:
    """Return a picture in the report's style: ``draw`` gets an empty figure."""
    with styled():
        figure = new_figure(size_in)
        draw(figure)
        return saved(figure, kind, **look)


def saved(figure: Figure, kind: str, **arguments: Any) -> bytes:
    """Return a figure as the bytes of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **{**FORMATS.get(kind, {}), **arguments})
    return buffer.getvalue()


def data_uri(kind: str, content: bytes) -> str:
    """Return an image source that needs no network."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


_POINTS = re.compile(r'((?:\sd|\sx|\sy|\spoints)="|translate\()([^")]*)')
_DIGITS = re.compile(r"(-?\d+\.\d\d)\d+")
_STYLE = re.compile(r'(?<= )style="([^"]+)"')


def lightened(svg: bytes) -> bytes:
    """Return a figure without what no reader sees, and every style once.

    No reader sees metadata, names of groups, turns by no angle, and digits beyond a pixel."""
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", svg.decode(), flags=re.DOTALL)
    text = re.sub(r'(<g) id="\w+"| transform="rotate\(-0 [^"]*"', r"\1", text)
    # Verdana has the widths of DejaVu Sans, for which the places of the texts were computed.
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = _POINTS.sub(lambda match: match[1] + _DIGITS.sub(r"\1", match[2]), text)
    names = {style: f"s{n}" for n, style in enumerate(dict.fromkeys(_STYLE.findall(text)))}
    text = _STYLE.sub(lambda match: f'class="{names[match[1]]}"', text)
    rules = "".join(f"\n.{name}{{{style}}}" for style, name in names.items())
    text = text.replace("</style>", f"{rules}\n</style>", 1)
    return re.sub(r"\n +", "\n", text[text.index("<svg") :]).encode()
