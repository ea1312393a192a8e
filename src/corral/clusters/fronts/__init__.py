"""Front processes of a cluster: how many there are, how they are started, what they are told, and what one of them runs."""
