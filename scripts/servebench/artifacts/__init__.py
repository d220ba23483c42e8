"""What measuring machines send is foreign data: read with bounds, checked, and only then used."""
