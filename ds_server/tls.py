"""TLS directly on the server."""

import ssl

from ds_server.settings import Tls
from tiering.errors import Refused


def server_context(tls: Tls) -> ssl.SSLContext | None:
    if tls.cert_path is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert_path, tls.key_path, lambda: _no_password(tls))
    except OSError as error:
        reason = error.strerror or str(error)
        raise Refused(f"TLS with {tls.cert_path} and {tls.key_path}: {reason}") from error
    return context


def _no_password(tls: Tls) -> str:
    """Without this the library would ask on the terminal."""
    raise Refused(f"TLS key {tls.key_path} is encrypted: give one without a password")
