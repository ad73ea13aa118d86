"""TLS for both skins, from what an `amqps` address says."""

import ssl

from penstock.client.uri import Tls


def tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.cacertfile)
    if not tls.verify_peer:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certfile is not None:
        context.load_cert_chain(tls.certfile, tls.keyfile)
    return context
