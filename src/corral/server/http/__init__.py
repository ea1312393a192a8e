"""HTTP as the API server needs it: HTTP/1.1 with WebSocket and SPDY upgrades, HTTP/2, streams, client certificates."""
