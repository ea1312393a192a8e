"""Pure decisions of job operators: what pods a job needs next and what its status says. Values in, values out."""
