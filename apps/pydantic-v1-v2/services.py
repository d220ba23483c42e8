"""A service catalogue whose every answer is validated twice and serialised by the framework.

One module for both major versions of Pydantic: they differ in the one method that was renamed,
which is looked up once, at import.
"""

from datetime import datetime
from typing import Annotated, Any

import pydantic
from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

COUNT = 20
TOTAL = 1_000

app = FastAPI()


class Service(BaseModel):
    service_id: int
    name: str
    version_number: int = Field(ge=1)
    version_name: str
    created_on: datetime
    updated_on: datetime


class ServiceList(BaseModel):
    offset: int
    count: int
    total: int
    services: list[Service]


RENAMED = "parse_obj" if pydantic.VERSION.startswith("1.") else "model_validate"
validate_service = getattr(Service, RENAMED)
validate_list = getattr(ServiceList, RENAMED)


def fetch(offset: int) -> list[dict[str, Any]]:
    """Stand in for a database: plain dicts, the same for the same offset."""
    return [
        {
            "service_id": service_id,
            "name": f"service {service_id}",
            "version_number": 1 + service_id % 5,
            "version_name": f"1.{service_id % 5}.0",
            "created_on": datetime(2023, 4, 1, 9, 0, 0),
            "updated_on": datetime(2023, 6, 30, 18, 30, 0),
        }
        for service_id in range(offset, offset + COUNT)
    ]


@app.get("/services", response_model=ServiceList)
async def list_services(offset: Annotated[int, Query(ge=0)] = 0) -> Any:
    services = [validate_service(row) for row in fetch(offset)]
    return validate_list(
        {"offset": offset, "count": len(services), "total": TOTAL, "services": services}
    )
