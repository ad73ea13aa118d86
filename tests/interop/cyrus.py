"""Cyrus SASL as a client, through ctypes: a SCRAM that nobody of this project wrote. Proton uses the
same library where it is built with it; the wheels and Debian's packages are not.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os

import pytest

_OK, _CONTINUE = 0, 1
_USER, _AUTHNAME, _PASS = 0x4001, 0x4002, 0x4004
_BAD_PARAMETER = -7

_SIMPLE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_char_p),
    ctypes.POINTER(ctypes.c_uint),
)
_SECRET = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_void_p),
)


class _Callback(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_ulong),
        ("procedure", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class CyrusError(Exception):
    """What the library says of an exchange that it does not like."""


def _library() -> ctypes.CDLL:
    name = ctypes.util.find_library("sasl2")
    if name is None:
        pytest.skip("Cyrus SASL is missing; as root: apt-get install libsasl2-2 libsasl2-modules")
    library = ctypes.CDLL(name)
    library.sasl_errdetail.restype = ctypes.c_char_p
    assert library.sasl_client_init(None) == _OK
    return library


class CyrusClient:
    """One login. Held by a test."""

    def __init__(self, user: str, password: str) -> None:
        self._library = _library()
        self._user = user.encode()
        secret = password.encode()
        # The length, then the octets.
        self._secret = ctypes.create_string_buffer(
            len(secret).to_bytes(ctypes.sizeof(ctypes.c_ulong), "little") + secret
        )
        # Held, or the library would call what is gone.
        self._kept = (_SIMPLE(self._name), _SECRET(self._password))
        name, passing = (ctypes.cast(one, ctypes.c_void_p).value for one in self._kept)
        self._callbacks = (_Callback * 4)(
            _Callback(_USER, name, None),
            _Callback(_AUTHNAME, name, None),
            _Callback(_PASS, passing, None),
            _Callback(0, None, None),
        )
        self._login = ctypes.c_void_p()
        made = self._library.sasl_client_new(
            b"amqp", b"localhost", None, None, self._callbacks, 0, ctypes.byref(self._login)
        )
        assert made == _OK, os.strerror(made)
        self._out = ctypes.c_void_p()
        self._length = ctypes.c_uint()

    def _name(self, context: object, identifier: int, result: object, length: object) -> int:
        if identifier not in {_USER, _AUTHNAME}:
            return _BAD_PARAMETER
        result[0] = self._user  # type: ignore[index]
        if length:
            length[0] = len(self._user)  # type: ignore[index]
        return _OK

    def _password(self, login: object, context: object, identifier: int, secret: object) -> int:
        secret[0] = ctypes.addressof(self._secret)  # type: ignore[index]
        return _OK

    def start(self, mechanism: str) -> bytes:
        chosen = ctypes.c_char_p()
        told = self._library.sasl_client_start(
            self._login,
            mechanism.encode(),
            None,
            ctypes.byref(self._out),
            ctypes.byref(self._length),
            ctypes.byref(chosen),
        )
        if told == -4:
            pytest.skip(f"Cyrus SASL has no {mechanism}; as root: apt-get install libsasl2-modules")
        return self._said(told)

    def step(self, message: bytes) -> bytes:
        """The answer to what the server said; the last one is empty. Raises `CyrusError` when the server
        has not proved that it knows the password.
        """
        told = self._library.sasl_client_step(
            self._login,
            message,
            len(message),
            None,
            ctypes.byref(self._out),
            ctypes.byref(self._length),
        )
        return self._said(told)

    def _said(self, told: int) -> bytes:
        if told not in {_OK, _CONTINUE}:
            raise CyrusError(self._library.sasl_errdetail(self._login).decode())
        self.is_finished = told == _OK
        return ctypes.string_at(self._out, self._length.value) if self._out.value else b""

    def close(self) -> None:
        self._library.sasl_dispose(ctypes.byref(self._login))
