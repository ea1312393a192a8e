"""Commands over objects of every kind: get, describe, apply, delete, wait and what else kubectl users expect."""
