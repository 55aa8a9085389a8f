"""Takes the picture of the first page of the documentation: `python tools/pictures.py`.

`levelfield score` measures the examples, and headless Chromium shows its page from the results to
the table by label. It writes `docs/assets/page.png`, in few colours.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "assets" / "page.png"
WIDTH, SCALE, COLOURS = 760, 2, 32
_ENDS = """() => {
  const heading = [...document.querySelectorAll('h2')].find(h => h.textContent == 'Results');
  const next = [...document.querySelectorAll('h3, h4, caption, p')]
      .find(e => e.textContent.trim() == 'By label');
  return [heading.getBoundingClientRect().top, next.getBoundingClientRect().top];
}"""
"""Finds where the shown part of the page begins and ends."""


def page_of_examples(folder: Path) -> Path:
    """Returns the page of the three systems of the examples."""
    page = folder / "page.html"
    words = ["score", "examples/texts.jsonl", "--metric", "ctrleval", "--report", str(page)]
    subprocess.run(
        [sys.executable, "-m", "levelfield", *words, "--out", str(folder / "scores.jsonl")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return page


def picture_of(page: Path) -> Image.Image:
    """Returns the results on a page as a picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        view = browser.new_page(
            viewport={"width": WIDTH, "height": 1600}, device_scale_factor=SCALE
        )
        view.goto(page.as_uri())
        top, end = view.evaluate(_ENDS)
        clip = {"x": 0.0, "y": top - 12, "width": float(WIDTH), "height": end - top}
        shot = view.screenshot(clip=clip)  # type: ignore[arg-type]  # a TypedDict of floats
        browser.close()
    return Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        picture_of(page_of_examples(Path(place))).save(PICTURE, optimize=True)
    print(PICTURE.relative_to(ROOT))
