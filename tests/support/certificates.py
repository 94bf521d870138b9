"""A certificate chain of our own: root, intermediate, and a server's certificate for 127.0.0.1."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class Chain:
    """`certificate` holds the server's and the intermediate one, as a server must send them."""

    root: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path) -> "Chain":
        root = trustme.CA()
        leaf = root.create_child_ca().issue_cert("127.0.0.1", "localhost")
        chain = cls(folder / "root.pem", folder / "chain.pem", folder / "key.pem")
        root.cert_pem.write_to_path(str(chain.root))
        for certificate in leaf.cert_chain_pems:
            certificate.write_to_path(str(chain.certificate), append=True)
        leaf.private_key_pem.write_to_path(str(chain.key))
        return chain

    def settings(self) -> dict[str, str]:
        return {"DS_TLS__CERT_PATH": str(self.certificate), "DS_TLS__KEY_PATH": str(self.key)}

    def lock_key(self, path: Path) -> None:
        """Writes the same key so that only a password opens it."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
        locked = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        path.write_bytes(locked)

    def client(self) -> ssl.SSLContext:
        """Trusts the root and nothing else."""
        return ssl.create_default_context(cafile=self.root)
