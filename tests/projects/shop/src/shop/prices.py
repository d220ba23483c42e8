"""How prices are written."""


def written(cents: int, currency: str) -> str:
    """A price as people read it: 1,234.50 EUR."""
    return f"{cents / 100:,.2f} {currency}"
