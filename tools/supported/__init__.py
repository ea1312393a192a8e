"""What of other projects' APIs has an effect here: gates, settings and fields, for `docs/reference/supported.md`."""
