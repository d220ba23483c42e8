"""The site: what `results/` holds, as data files and pages that anybody can browse.

    results/ ──▶ reading ──▶ nights ──▶ history ──▶ shards · overview · feeds ──▶ files

A run file is read once and kept as columns (`nights`); everything else is made from the columns.
"""
