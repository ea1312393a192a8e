"""The values queueing decides on, and how API objects are decoded into them."""
