"""What a run leaves on the disk: its folder, weights, and files that are whole."""
