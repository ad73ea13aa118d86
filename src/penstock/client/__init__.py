"""The embedded client: a sans-IO `conversation` over the wire room and two thin front ends, called
skins.

`blocking` is for programs with threads or none, `asynchronous` for asyncio; both speak in the
verbs of `calls`.
"""
