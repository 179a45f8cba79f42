"""Files in and out: one module per format, all of them streaming."""
