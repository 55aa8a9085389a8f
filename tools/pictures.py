"""Takes the pictures of the documentation: `python tools/pictures.py`.

Headless Chromium shows the page that `levelfield score` makes of the examples, from the results to
the table by label; control against fluency on the page of the study in `examples/level-field`; and
the page on which a rater of `examples/rating` practises. It writes `page.png`, `level-field.png`
and `rating.png` to `docs/assets`, in few colours.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
ASSETS = ROOT / "docs" / "assets"
LEVELFIELD = (sys.executable, "-m", "levelfield")
WIDTH, SCALE, COLOURS = 760, 2, 32
_ENDS = """() => {
  const heading = [...document.querySelectorAll('h2')].find(h => h.textContent == 'Results');
  const next = [...document.querySelectorAll('h3, h4, caption, p')]
      .find(e => e.textContent.trim() == 'By label');
  return [heading.getBoundingClientRect().top - 12, next.getBoundingClientRect().top - 12];
}"""
"""Finds where the shown part of a page of scores begins and ends."""
_RATING_ENDS = "() => [0, document.querySelector('main').getBoundingClientRect().bottom + 12]"
_FRONTIER_ENDS = """() => {
  const box = document.querySelector('[aria-labelledby=frontier-1] figure').getBoundingClientRect();
  return [box.top - 12, box.bottom + 12];
}"""
_READY = "#item[data-ready]"


def show_scores(view: Page, folder: Path) -> None:
    """Shows the page of the three systems of the examples."""
    page = folder / "page.html"
    words = ["score", "examples/texts.jsonl", "--metric", "ctrleval", "--report", str(page)]
    subprocess.run(
        [*LEVELFIELD, *words, "--out", str(folder / "scores.jsonl")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    view.goto(page.as_uri())


def show_study(view: Page, folder: Path) -> None:
    """Shows the page of the study of sentiment on a level field."""
    study = shutil.copytree(ROOT / "examples" / "level-field", folder / "level-field")
    with tarfile.open(study / "sentiment.tar.xz") as archive:
        archive.extractall(study, filter="data")
    words = ["study", "report", "sentiment.toml", "--out", "report"]
    subprocess.run([*LEVELFIELD, *words], cwd=study, stdout=subprocess.DEVNULL, check=True)
    view.goto((study / "report" / "page.html").as_uri())


def show_rating(view: Page, address: str) -> None:
    """Goes the way of a rater from their link to the first text, and moves its sliders."""
    view.goto(address)
    while not view.locator("#item").count():
        for box in view.locator("input[type=checkbox]").all():
            box.check()
        view.locator("button.main").click()
    view.wait_for_selector(_READY)
    for bar in view.locator("[role=slider]").all():
        place = bar.bounding_box()
        assert place is not None
        bar.click(position={"x": 0.8 * place["width"], "y": place["height"] / 2})


def picture(view: Page, ends: str) -> Image.Image:
    """Returns what a page shows between two heights."""
    top, end = view.evaluate(ends)
    clip = {"x": 0.0, "y": top, "width": float(WIDTH), "height": end - top}
    shot = view.screenshot(clip=clip, full_page=True)  # type: ignore[arg-type]  # a TypedDict
    return Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS)


def main(folder: Path) -> None:
    """Takes all pictures, with a folder for what they need."""
    study = shutil.copytree(ROOT / "examples" / "rating", folder / "rating")
    (study / "STUDY.sqlite").unlink(missing_ok=True)
    words = [*LEVELFIELD, "rate", "serve", str(study), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        links = (re.match(r"survey 1, rater 1\s+(\S+)", line) for line in server.stdout)
        address = next(link[1] for link in links if link)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            view = browser.new_page(
                viewport={"width": WIDTH, "height": 1000}, device_scale_factor=SCALE
            )
            show_scores(view, folder)
            picture(view, _ENDS).save(ASSETS / "page.png", optimize=True)
            show_study(view, folder)
            picture(view, _FRONTIER_ENDS).save(ASSETS / "level-field.png", optimize=True)
            show_rating(view, address)
            picture(view, _RATING_ENDS).save(ASSETS / "rating.png", optimize=True)
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
    print(f"{ASSETS.relative_to(ROOT)}: page.png, level-field.png, rating.png")
