"""FastAPI with one route, beside 200 Pydantic models that no route uses."""

from bare_app import app
from documents import make_models

__all__ = ["app"]

MODELS = make_models(200)
