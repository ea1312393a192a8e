"""Every kind a Corral cluster serves: names, versions, schemas, defaults, rules and printed columns, by API group."""
