"""HTTP/2 (RFC 9113) for the API server: many requests and watches over one TLS connection, chosen by ALPN."""
