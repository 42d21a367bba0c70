"""Atlas: the NPU of the Merlin documents, profiles atlas-v0 and atlas-v1."""
