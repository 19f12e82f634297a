"""The HTTP edge that both processes share: a route table served by aiohttp's low-level server, problems, OpenAPI."""
