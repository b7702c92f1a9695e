"""The cell magic `%%dpsql`."""
