"""Tests of all other routes, each by the client of its framework."""

import asyncio

import httpx
import httpx2
import pytest
import serve
from litestar.testing import TestClient as LitestarClient
from starlette.testclient import TestClient
from work import WORK


@pytest.fixture
def client():
    with TestClient(serve.fastapi) as client:
        yield client


@pytest.mark.parametrize("kind", WORK)
def test_fastapi(client, kind):
    assert client.get(f"/fastapi/{kind}").status_code == 200
    assert client.get(f"/thread/{kind}").status_code == 200


def test_starlette():
    for kind in WORK:
        assert TestClient(serve.starlette).get(f"/starlette/{kind}").status_code == 200


def test_litestar():
    with LitestarClient(serve.litestar) as client:
        for kind in WORK:
            assert client.get(f"/litestar/{kind}").status_code == 200


def test_flask():
    for kind in WORK:
        assert serve.make_flask().test_client().get(f"/flask/{kind}").status_code == 200


def test_quart():
    async def ask():
        for kind in WORK:
            assert (await serve.quart.test_client().get(f"/quart/{kind}")).status_code == 200

    asyncio.run(ask())


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_httpx(library):
    async def ask():
        transport = library.ASGITransport(serve.starlette)
        async with library.AsyncClient(transport=transport, base_url="http://shop") as client:
            for kind in WORK:
                assert (await client.get(f"/starlette/{kind}")).status_code == 200

    asyncio.run(ask())


def test_that_fails():
    raise AssertionError


def test_that_is_skipped():
    pytest.skip("always")
