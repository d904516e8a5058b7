"""Training code of nano-v41, a small model of the DeepSeek-V4.1 architecture."""
