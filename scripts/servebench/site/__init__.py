"""The site: what `results/` holds, as data files and pages that anybody can browse.

results/ ──▶ series (runs → tables, events) ──▶ data files · overview · feed · pages
"""
