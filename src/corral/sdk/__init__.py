"""The Python API: `from corral import Client, AsyncClient, job`. One asynchronous client, a blocking one that waits for it, and functions as jobs."""
