"""What this repository is made with, and no one needs to install."""
