"""TLS for both skins, from the parameters of an `amqps` address."""

import ssl

from penstock.client.errors import UriInvalid
from penstock.client.uri import Tls


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises `UriInvalid` when a file that the address names cannot be used."""
    try:
        context = ssl.create_default_context(cafile=tls.cacertfile)
    except OSError as error:
        raise _unusable("cacertfile", tls.cacertfile, error) from error
    if not tls.verify_peer:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certfile is not None:
        try:
            context.load_cert_chain(tls.certfile, tls.keyfile)
        except OSError as error:
            files = tls.certfile if tls.keyfile is None else f"{tls.certfile}, {tls.keyfile}"
            raise _unusable("certfile", files, error) from error
    return context


def _unusable(parameter: str, file: str | None, error: OSError) -> UriInvalid:
    # Python's own text does not say which file it is.
    return UriInvalid(f"cannot use the {parameter} {file}: {error.strerror or error}")
