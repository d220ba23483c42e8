"""What records the entered functions of all Python processes of a launch that is not measured."""
