"""What a hub refuses at admission, beyond the schemas: upstream's webhook rules with their texts."""
