"""Bodies and answers: decoding, negotiation, representations, compression, OpenAPI and discovery documents."""
