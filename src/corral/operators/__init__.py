"""What turns jobs into pods in an embedded cluster."""
