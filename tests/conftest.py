"""For all tests: grpc reads this once, at its import, and another test may import it before the federation's do."""

import os

os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-CHACHA20-POLY1305"  # as colonnade.federation.tls.load_grpc has it
