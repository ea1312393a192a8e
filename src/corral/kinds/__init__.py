"""One module per API group: every kind served, its versions, schema, defaults, validation and columns."""
