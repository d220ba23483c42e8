"""The site's pages: one module and one template for each kind of page; `kinds` lists them.

Nothing is imported here: who needs the addresses of pages need not wait for what draws them.
"""
