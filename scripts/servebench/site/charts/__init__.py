"""Charts of the site: pure functions from frozen data to figures in HTML and SVG.

    data ──▶ forest · lines · heat · trend ──▶ figure.Chart ──▶ figure.figure(chart): str

A figure holds its caption, legend, one drawing for wide and one for narrow pages, notes, and its
data as a table. Nothing needs JavaScript; a page's script finds every mark by `data-series` (up,
down) and `data-point` (left, right), its sentence in `<title>` or `title`, and its place in the
drawing's coordinates in `data-x` and `data-y`.
"""
