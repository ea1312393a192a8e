"""HTTP/1.1 as the API server needs it: keep-alive requests, streams, WebSocket and SPDY upgrades, client certificates."""
