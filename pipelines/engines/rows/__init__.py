"""Plans over few rows, made in this process: an engine that plans each anew needs many times as long."""
