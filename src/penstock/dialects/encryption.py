"""What TLS has agreed on for one connection, and whom the client's certificate names."""


class Encryption:
    """Held by a `Peer` whose octets travel in TLS. Made once, when the handshake is over, and never
    changed. What the client did not show is empty.
    """

    def __init__(
        self,
        version: str,
        cipher: str,
        certificate_name: str = "",
        subject: str = "",
        issuer: str = "",
        validity: str = "",
    ) -> None:
        # As OpenSSL calls them: "TLSv1.3", "TLS_AES_256_GCM_SHA384".
        self.version: str = version
        self.cipher: str = cipher
        # Whom the client's certificate logs in, by the configuration: the common name or the whole
        # subject. Empty unless a configured authority has signed it.
        self.certificate_name: str = certificate_name
        # Distinguished names of the client's certificate, and from when until when it is valid.
        self.subject: str = subject
        self.issuer: str = issuer
        self.validity: str = validity
