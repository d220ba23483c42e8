"""What needs no package."""

import asyncio

app = asyncio
