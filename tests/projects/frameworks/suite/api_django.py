"""Tests of the routes of Django, by its clients."""

from django.test import AsyncClient, SimpleTestCase
from rest_framework.test import APIClient
from work import WORK


class DjangoTest(SimpleTestCase):
    """One test for each client."""

    def test_client(self) -> None:
        for kind in WORK:
            assert self.client.get(f"/django/{kind}/").status_code == 200

    def test_rest(self) -> None:
        for kind in WORK:
            assert APIClient().get(f"/drf/{kind}/").status_code == 200

    async def test_async(self) -> None:
        for kind in WORK:
            assert (await AsyncClient().get(f"/async/{kind}/")).status_code == 200
