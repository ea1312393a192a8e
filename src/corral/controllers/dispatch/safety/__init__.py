"""Why a job never runs twice: where it may be, who is fenced, which pods still live."""
