"""Pydantic models as an application has them, made by the dozen; alike for Pydantic 1 and 2."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, create_model

FIELDS: dict[str, Any] = {
    "number": (int, ...),
    "name": (str, ...),
    "price": (float, 0.0),
    "active": (bool, True),
    "note": (str | None, None),
    "tags": (list[str], []),
    "labels": (dict[str, str], {}),
    "created_at": (datetime, ...),
}

NESTED = 10
"""Every so many models a chain ends, in which each has the one before as a field."""


def make_models(count: int) -> list[type[BaseModel]]:
    """Define so many models of eight fields, and of a ninth that is the model before."""
    models: list[type[BaseModel]] = []
    for place in range(count):
        fields = dict(FIELDS)
        if place % NESTED:
            fields["part"] = (models[-1] | None, None)
        models.append(create_model(f"Document{place}", __module__=__name__, **fields))
    return models
