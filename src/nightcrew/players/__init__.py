"""Programs that sit in a seat themselves. Each is started by its path; `scripted` stands alone on the standard library."""
