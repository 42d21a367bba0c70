"""What a network computes, tensor by tensor, without tiles, tasks or memory."""
