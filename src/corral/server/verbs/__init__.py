"""What can be done to objects: read, watch, create, update, patch, apply, delete; and the steps these share."""
