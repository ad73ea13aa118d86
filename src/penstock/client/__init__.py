"""The one embedded client: a sans-IO `conversation` over our own wire and two thin skins.

`blocking` is for programs with threads or none, `asynchronous` for asyncio; both speak in the
verbs of `calls`.
"""
