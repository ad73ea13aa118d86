"""Requests as octets, for what no client library would send."""

import socket
from typing import Final

from penstock import Broker

HOST: Final = b"Host: localhost\r\n"
LOGIN: Final = b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
# Long enough for a loaded machine.
ANSWER_SECONDS: Final = 60
_KEY: Final = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
_UPGRADE: Final = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"


def request(line: bytes, headers: bytes = b"", body: bytes | None = None) -> bytes:
    if body is not None:
        headers += b"Content-Length: %d\r\n" % len(body)
    return line + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n" + (body or b"")


def websocket_request(
    path: bytes = b"/ws", host: bytes = b"localhost", headers: bytes = b""
) -> bytes:
    return (
        b"GET %b HTTP/1.1\r\nHost: %b\r\n" % (path, host)
        + _UPGRADE
        + _KEY
        + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n"
        + headers
        + b"\r\n"
    )


def frame(opcode: int, payload: bytes, is_last: bool = True, is_masked: bool = True) -> bytes:
    """Of a WebSocket; masked with zeros."""
    size = len(payload)
    mark = 0x80 if is_masked else 0
    if size < 126:
        length = bytes([mark | size])
    elif size < 65_536:
        length = bytes([mark | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([mark | 127]) + size.to_bytes(8, "big")
    mask = bytes(4) if is_masked else b""
    return bytes([0x80 * is_last | opcode]) + length + mask + payload


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)


def port_of(broker: Broker) -> int:
    return broker.http_port


def said_until_end(line: socket.socket) -> bytes:
    """Everything the server says until it closes or cuts the connection."""
    said = b""
    try:
        while octets := line.recv(65_536):
            said += octets
    except ConnectionError:
        pass
    return said


def answer_to(port: int, octets: bytes) -> bytes:
    """The first answer's head and body."""
    with opened(port) as line:
        try:
            line.sendall(octets)
        except ConnectionError:
            # Refused before all of it was sent.
            pass
        return first_answer(line)


def first_answer(line: socket.socket) -> bytes:
    """As much of it as came before the server cut the connection."""
    said = b""
    while b"\r\n\r\n" not in said:
        try:
            octets = line.recv(65_536)
        except ConnectionError:
            octets = b""
        if not octets:
            return said
        said += octets
    head, _, body = said.partition(b"\r\n\r\n")
    size = 0
    for header in head.lower().split(b"\r\n"):
        if header.startswith(b"content-length:"):
            size = int(header.partition(b":")[2])
    while len(body) < size:
        octets = line.recv(65_536)
        if not octets:
            break
        body += octets
    return head + b"\r\n\r\n" + body
