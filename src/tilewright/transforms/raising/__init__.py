"""What `raise-composites` recognises, one file per kind of composite."""
