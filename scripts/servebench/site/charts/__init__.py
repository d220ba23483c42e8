"""Charts of the site: pure functions from frozen data to figures in HTML and SVG.

    data ──▶ bars · lines · heat · forest · trend ──▶ figure.Chart ──▶ figure.figure(chart): str
    spark.spark(…): str, a tiny picture for a table's cell

A chart function computes where everything stands; two templates write it down. A figure holds its
caption, its legend, one drawing for wide and one for narrow pages (the stylesheet `charts.css`
shows the one that fits), its notes, and its data as a table. Nothing needs JavaScript; a page's
script finds every mark by `data-series` (up, down) and `data-point` (left, right), its sentence in
`<title>`, and its place in the drawing's coordinates in `data-x` and `data-y`.
"""
