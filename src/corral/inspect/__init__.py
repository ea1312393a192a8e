"""What the command line, the dashboard and Python clients ask: finding objects, and explaining them."""
