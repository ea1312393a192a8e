"""What job kinds share: the adapter interface, the registry of kinds, and the tools their operators are made of."""
