"""The size that a study needs: `levelfield plan`."""
