"""The same routes by Django and its REST framework."""

from typing import Any

from django.http import HttpRequest, JsonResponse
from django.urls import path
from rest_framework.decorators import api_view
from rest_framework.response import Response
from work import MORE, WORK


def of_django(_request: HttpRequest, kind: str) -> JsonResponse:
    response = JsonResponse(WORK[kind](), safe=False)
    response.set_cookie("kind", kind, secure=bool(MORE))
    return response


async def of_django_async(_request: HttpRequest, kind: str) -> JsonResponse:
    return JsonResponse(WORK[kind](), safe=False)


@api_view(["GET"])
def of_drf(_request: Any, kind: str) -> Response:
    return Response(WORK[kind]())


urlpatterns = [
    path("django/<kind>/", of_django),
    path("async/<kind>/", of_django_async),
    path("drf/<kind>/", of_drf),
]
