"""Takes the README's pictures, of the first page of a site.

    observatory site -o FOLDER && .venv/bin/python tools/pictures.py FOLDER

The pictures are docs/front-*.png.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from PIL import Image

import browsing

DOCS = Path(__file__).parents[1] / "docs"
COLOURS = 128
"""Of a picture: more make it larger, and look the same."""

with browsing.serve(Path(sys.argv[1])) as base, browsing.browser() as browser:
    for scheme in ("light", "dark"):
        page = browser.new_context(
            viewport={"width": 1280, "height": 1140}, color_scheme=scheme
        ).new_page()
        page.goto(base, wait_until="networkidle")
        picture = DOCS / f"front-{scheme}.png"
        page.screenshot(path=picture)
        small = Image.open(picture).convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS)
        small.save(picture, optimize=True)
