"""Models in OpenVINO: the forward pass of encoders and judges on Intel and other CPUs.

Each class is PyTorch's with another forward pass, so tokens, batches, pooling and what is cut are
the same by construction.
"""
