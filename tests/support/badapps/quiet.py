"""Right answers, of an application that switches all logging off, its server's included."""

import logging

from answers import app

__all__ = ["app"]

logging.disable(logging.CRITICAL)
