"""Pages opened in a headless browser, and the defects that the browser finds in them.

These are errors, missing pictures, text with too little contrast to its background, and parts that
are wider than a narrow screen. The page is copied with a script in it, and the browser prints the
resulting document; only the browser itself is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LEAST_CONTRAST, LEAST_CONTRAST_LARGE = 4.5, 3.0
"""WCAG 2.1, level AA."""
NARROW_PX, WIDE_PX = 500, 1200
"""Headless Chromium makes no window narrower than 500 pixels."""

_EARLY = """<script>
window.faultline = [];
window.addEventListener("error", (event) => window.faultline.push(
  event.target === window ? "" + event.message : "missing: " + ("" + event.target.src).slice(0, 80)
), true);
</script>"""

_LATE = """<script>
window.addEventListener("load", () => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(style.color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? LARGE : SMALL))
      weak.push(node.textContent.trim().slice(0, 40) + ": " + ratio.toFixed(2));
  }
  const result = document.createElement("pre");
  result.id = "faultline-result";
  result.textContent = JSON.stringify({
    errors: window.faultline,
    missing: [...document.images].filter((i) => !i.complete || !i.naturalWidth)
      .map((i) => i.alt.slice(0, 80)),
    pictures: document.images.length,
    unnamed: [...document.images].filter((i) => !i.alt).length,
    weak: [...new Set(weak)],
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
  });
  document.body.append(result);
});
</script>""".replace("LARGE", str(LEAST_CONTRAST_LARGE)).replace("SMALL", str(LEAST_CONTRAST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The finds of a browser on a page."""

    errors: list[str]
    missing: list[str]
    """Pictures that could not be shown."""
    pictures: int
    unnamed: int
    """Pictures without a text for those who cannot see them."""
    weak: list[str]
    """Texts with too little contrast."""
    overflow: int
    """Pixels that the page is wider than the screen."""
    dark: bool


def find_browser() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def document(browser: str, address: str, scratch: Path, *options: str) -> str:
    """Open a page, and return what became of it; ``scratch`` is for the browser's own files."""
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={scratch / 'profile'}", *options, "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def look(browser: str, page: Path, scratch: Path, *, dark: bool, width_px: int) -> Seen:
    """Open ``page`` and report."""
    text = page.read_text().replace("<head>", f"<head>{_EARLY}", 1)
    copy = page.with_name(f"checked-{page.name}")
    copy.write_text(text.replace("</body>", f"{_LATE}</body>", 1))
    options = (
        f"--window-size={width_px},900",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--virtual-time-budget=5000",
    )
    try:
        shown = document(browser, copy.as_uri(), scratch, *options)
    finally:
        copy.unlink()
    found = re.search(r'<pre id="faultline-result">(.*?)</pre>', shown, re.DOTALL)
    assert found, f"the page did not report: {shown[-2000:]}"
    return Seen(**json.loads(unescape(found[1])))
