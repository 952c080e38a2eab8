"""What Volcano granted to each container of a pod."""
