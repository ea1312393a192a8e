"""Admission: the defaults and rules upstream keeps in webhooks, as in-process plug-ins with the same texts."""
