"""Commands about this machine and this installation: version, doctor, examples; and asking its clusters all at once."""
